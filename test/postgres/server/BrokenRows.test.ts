/**
 * A stored operation that breaks the contract is never sent, by id or in a list. The tests break rows in PostgreSQL,
 * without the constraints and triggers that prevent it.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeJsonEncoder } from "../../../src/dispatch/JsonEncoder.ts"
import { Operation, type OperationId } from "../../../src/domain/Operation.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../fixtures/http/HttpObserver.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, acceptIn, issue } from "../../fixtures/http/HttpScene.ts"
import { json } from "../../fixtures/http/HttpWire.ts"

/** What breaks a failed operation, with a text that neither a response nor a log line may hold. */
const broken: Readonly<Record<string, readonly [assignments: string, secret?: string]>> = {
  "a type in upper case": ["type = 'Payment-SECRET'", "Payment-SECRET"],
  "an overlong type": ["type = repeat('a', 65)", "a".repeat(65)],
  "an unknown state": ["state = 'pending-secret'", "pending-secret"],
  "a state without a completion": ["state = 'accepted', failure_code = NULL, failure_message = NULL"],
  "no completion": ["completed_at = NULL"],
  "revision 0": ["revision = 0"],
  "a creation at infinity": ["created_at = 'infinity'"],
  "an update before all time": ["updated_at = '-infinity'"],
  "a completion at infinity": ["completed_at = 'infinity'"],
  "an instant that JavaScript cannot hold": ["updated_at = '280000-01-01T00:00:00Z'"],
  "a failure without a code": ["failure_code = NULL"],
  "a failure without a message": ["failure_message = NULL"],
  "a failure code in upper case": ["failure_code = 'SECRET-CODE'", "SECRET-CODE"],
  "an empty message": ["failure_message = ''"],
  "a message that is longer in UTF-16 than in characters": [
    "failure_message = repeat(U&'\\+01F4B6', 1024)",
    "\u{1f4b6}"
  ]
}

/** Drops the constraints of the table in this database. */
const unprotect = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const checks = yield* sql<{ readonly name: string }>`
    SELECT conname AS name FROM pg_constraint WHERE conrelid = 'operations'::regclass AND contype = 'c'`
  for (const { name } of checks) yield* sql.unsafe(`ALTER TABLE operations DROP CONSTRAINT IF EXISTS ${name}`)
})

/** Changes an operation, which the trigger would refuse. */
const change = (id: OperationId, assignments: string) =>
  SqlClient.SqlClient.use((sql) =>
    sql.withTransaction(Effect.gen(function*() {
      yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_transition`
      yield* sql.unsafe(`UPDATE operations SET ${assignments} WHERE id = $1`, [id])
      yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition`
    }))
  )

layer(postgresGateway(), { excludeTestServices: true })("A stored operation that breaks the contract", (it) => {
  it.effect.each(Object.keys(broken))(
    "is withheld by id and in a list, and logged without its values: %s",
    (name) =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { causesOf } = yield* Observer
        yield* unprotect
        const [assignments, secret] = broken[name]!
        const holder = yield* issue()
        const { id } = yield* acceptIn(holder, "failed")
        const { id: sound } = yield* accept(holder)
        yield* change(id, assignments)
        const byId = `/v1/operations/${id}`
        for (
          const [target, ifNoneMatch] of [[byId], [byId, "*"], ["/v1/operations"]] as ReadonlyArray<[string, string?]>
        ) {
          const sent = ifNoneMatch === undefined ? {} : { headers: { "if-none-match": ifNoneMatch } }
          const { headers, text } = yield* send(target, { token: holder.token, ...sent }).pipe(
            Effect.tap((answer) => Effect.sync(() => assertProblemOf(answer, "response_contract_failed", name)))
          )
          const causes = causesOf(headers["x-request-id"]!)
          assert.deepStrictEqual(causes.map(({ level, message }) => [level, message]), [
            ["ERROR", "Response withheld: it breaks the contract"]
          ])
          assert.include(causes[0]!.text, id)
          if (secret !== undefined) assert.notInclude(text + causes[0]!.text, secret)
        }
        assert.strictEqual((yield* send(`/v1/operations/${sound}`, { token: holder.token })).status, 200)
      })
  )

  it.effect("does not count if it is beyond the end of the page", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      yield* unprotect
      const holder = yield* issue()
      const { id: oldest } = yield* accept(holder)
      const { id: newest } = yield* accept(holder)
      yield* change(oldest, "revision = 0, created_at = created_at - interval '1 day'")
      const page = yield* send("/v1/operations?page_size=1", { token: holder.token })
      assert.strictEqual(page.status, 200)
      const { next_page_token, operations } = json(page) as {
        readonly operations: ReadonlyArray<{ readonly id: string }>
        readonly next_page_token: string
      }
      assert.deepStrictEqual(operations.map(({ id }) => id), [newest])
      const next = yield* send(`/v1/operations?page_size=1&page_token=${next_page_token}`, { token: holder.token })
      assertProblemOf(next, "response_contract_failed")
    }))
})

layer(postgresGateway(), { excludeTestServices: true })("An unusual operation", (it) => {
  const unusual = [
    "under_review = true",
    "revision = 2147483647",
    "created_at = '0044-03-15T12:00:00.001Z BC'",
    "created_at = '9999-12-31T23:59:59.999Z'",
    "updated_at = '10000-01-01T00:00:00Z', completed_at = '0001-01-01T00:00:00Z'",
    "updated_at = '275760-09-13T00:00:00Z'",
    "failure_message = E'\\u0001\"\\\\\\u2028\\u007f\\n' || repeat(U&'\\+01F4B6', 500)"
  ]

  it.effect.each(unusual)("is encoded as the schema does: %s", (assignments) =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      yield* unprotect
      const holder = yield* issue()
      const { id } = yield* acceptIn(holder, "failed")
      yield* change(id, assignments)
      const operation = yield* store.find(holder.identity, id)
      assert.strictEqual(
        makeJsonEncoder(Operation).write(operation),
        JSON.stringify(Schema.encodeSync(Operation)(operation))
      )
    }))
})
