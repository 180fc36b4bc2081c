/**
 * A stored operation that breaks the contract is never sent, by id or in a list. The tests break rows in PostgreSQL,
 * without the constraints and triggers that prevent it. `unit/services/sql/OperationRow` has every value of each column.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../fixtures/http/HttpObserver.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, acceptIn, issue } from "../../fixtures/http/HttpScene.ts"
import { json } from "../../fixtures/http/HttpWire.ts"

/** What breaks a failed operation, with a text that neither a response nor a log line may hold. */
const broken: Readonly<Record<string, readonly [assignments: string, secret?: string]>> = {
  "a type in upper case": ["type = 'Payment-SECRET'", "Payment-SECRET"],
  "no completion": ["completed_at = NULL"],
  "a creation at infinity": ["created_at = 'infinity'"],
  "an instant that JavaScript cannot hold": ["updated_at = '280000-01-01T00:00:00Z'"],
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
