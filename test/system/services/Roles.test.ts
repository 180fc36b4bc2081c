/**
 * The generated roles can do their work, and nothing else. The tests try every statement on each table and column of
 * PostgreSQL as each role.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient, type SqlConnection } from "effect/sql"
import { TestClock } from "effect/testing"
import * as fs from "node:fs"
import { bearer } from "../../../src/domain/Credential.ts"
import {
  ClientId,
  ExternalId,
  type GrantIdentity,
  Issuer,
  operationsRead,
  PairwiseSubject,
  Provider,
  ResourceOwner,
  Scope
} from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import * as PgAcceptanceSignal from "../../../src/node/PgAcceptanceSignal.ts"
import { AcceptanceSignal } from "../../../src/services/AcceptanceSignal.ts"
import { GrantBlockers } from "../../../src/services/GrantBlockers.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import {
  closedTables,
  type Columns,
  createRoles,
  grantPrivileges,
  grantProofs,
  proofTables,
  protectDatabase,
  roles,
  type TablePrivileges
} from "../../../src/services/sql/roles.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { ProofReplay } from "../../../src/services/verification/ProofReplay.ts"
import { SubmissionWorker } from "../../../src/submission/SubmissionWorker.ts"
import { run } from "../../fixtures/CommandLine.ts"
import { isSuperuser } from "../../fixtures/Pools.ts"
import { claimTerms, readTerms, recording, reference } from "../../fixtures/Queue.ts"
import { sqlStateOf } from "../../fixtures/RawSql.ts"
import { roleNames, rolesWith } from "../../fixtures/Roles.ts"
import { makeWorld } from "../../fixtures/submission/World.ts"
import { Platform } from "../../fixtures/TestDatabase.ts"

const request = {
  resource_owner: ResourceOwner.make("owner"),
  subject: PairwiseSubject.make("subject"),
  client_id: ClientId.make("client"),
  provider: Provider.make("bank"),
  scopes: [operationsRead],
  expires_in: Duration.hours(1)
}

const registration = {
  ...request,
  issuer: Issuer.make("https://as.example"),
  grant: ExternalId.make("grant"),
  client_id: ClientId.make("their-client"),
  expires_at: DateTime.makeUnsafe("2100-01-01T00:00:00Z")
}

const insufficientPrivilege = "42501"

/** The result of a statement in a transaction that is rolled back: null, or the SQLSTATE of the refusal. */
const tried = (connection: SqlConnection.Connection, statement: string) =>
  Effect.gen(function*() {
    const run = (text: string) => connection.executeUnprepared(text, [], undefined)
    yield* run("BEGIN")
    const outcome = yield* Effect.result(run(statement))
    yield* run("ROLLBACK")
    return outcome._tag === "Success" ? null : sqlStateOf(outcome.failure)
  })

/** Asserts that the role lacks the privilege for a statement. */
const denied = (statement: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.flip(sql.unsafe(statement).unprepared)).pipe(
    Effect.map((error) => assert.strictEqual(sqlStateOf(error), insufficientPrivilege, statement))
  )

/** All work of workers and operators, until each operation is settled and its payload erased. */
const submit = Effect.fnUntraced(function*(identity: GrantIdentity) {
  const ledger = yield* OperationLedger
  const queue = yield* SubmissionQueue
  const sql = yield* SqlClient.SqlClient
  const { provider } = request
  const acceptNext = (key: string) =>
    ledger.accept(identity, { type: "payment", key: IdempotencyKey.make(key), payload: key })
  assert.deepStrictEqual(yield* queue.prepare, { moved: false })
  yield* acceptNext("sent")
  const [claim] = yield* queue.claim(provider, 1, claimTerms)
  const { id } = claim!.operation
  assert.strictEqual(yield* claim!.payload, "sent")
  yield* queue.record(
    id,
    2,
    { state: "submitted" },
    recording({ reference: reference("theirs"), due_in: Duration.zero })
  )
  assert.lengthOf(yield* queue.takeReads(provider, 1, readTerms), 1)
  yield* queue.postpone(id, 3, { due_in: Duration.zero, reference: null })
  yield* queue.record(id, 3, { state: "succeeded" }, recording())
  yield* queue.rescue(10)

  const { operation: held } = yield* acceptNext("held")
  const { operation: released } = yield* acceptNext("released")
  yield* sql`UPDATE ledger_home SET system_identifier = system_identifier - 1`
  assert.deepStrictEqual(yield* queue.prepare, { moved: true })
  assert.lengthOf(yield* queue.takeHeld(provider, 10, readTerms), 2)
  yield* queue.recordHeld(held.id, 1, { state: "succeeded" }, recording())
  assert.strictEqual((yield* Effect.flip(queue.release(released.id)))._tag, "StillHeld")
  yield* queue.report(released.id, null)
  assert.strictEqual(yield* queue.releaseAll, 1)
  yield* ledger.review(released.id, true)
  yield* ledger.cancel(released.id, null)
  for (const settled of [id, held.id, released.id]) {
    assert.isEmpty(yield* sql`SELECT 1 FROM operation_payloads WHERE operation_id = ${settled}`)
  }
})

interface CatalogColumn {
  readonly table: string
  readonly column: string
  readonly type: string
}

/** Every column of every table, from the catalog. */
const catalog = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<CatalogColumn>`
      SELECT c.relname AS table, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      ORDER BY c.relname, a.attnum`
)

const includes = (columns: Columns | undefined, column: string): boolean =>
  columns === "all" || columns?.includes(column) === true

const columnVerbs: Readonly<Record<"SELECT" | "INSERT" | "UPDATE", (column: CatalogColumn) => string>> = {
  SELECT: ({ column, table }) => `SELECT "${column}" FROM ${table} LIMIT 0`,
  INSERT: ({ column, table, type }) => `INSERT INTO ${table} ("${column}") SELECT NULL::${type} WHERE false`,
  UPDATE: ({ column, table }) => `UPDATE ${table} SET "${column}" = NULL WHERE false`
}

const lockStrengths = ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"]

const lockModes = [
  "ACCESS SHARE",
  "ROW SHARE",
  "ROW EXCLUSIVE",
  "SHARE UPDATE EXCLUSIVE",
  "SHARE",
  "SHARE ROW EXCLUSIVE",
  "EXCLUSIVE",
  "ACCESS EXCLUSIVE"
]

/** Statements on a table, and whether these privileges allow them. */
const tableStatements = (table: string, privileges: TablePrivileges): ReadonlyArray<readonly [string, boolean]> => [
  [`DELETE FROM ${table} WHERE false`, privileges.DELETE === true],
  [`TRUNCATE ${table} CASCADE`, false],
  [`ALTER TABLE ${table} DISABLE TRIGGER ALL`, false],
  [`DROP TABLE ${table} CASCADE`, false],
  ...lockStrengths.map((strength) =>
    [
      `SELECT FROM ${table} FOR ${strength}`,
      privileges.SELECT !== undefined && privileges.UPDATE !== undefined
    ] as const
  ),
  // Privileges on columns allow no LOCK TABLE. Those on the table do: SELECT and INSERT in modes that block no write.
  ...lockModes.flatMap((mode) => {
    // PostgreSQL 15 refuses ROW SHARE with INSERT, and later versions do not.
    if (mode === "ROW SHARE" && privileges.INSERT === "all") return []
    const permitted = privileges.DELETE === true || (mode === "ACCESS SHARE" && privileges.SELECT === "all")
      || (mode === "ROW EXCLUSIVE" && privileges.INSERT === "all")
    return [[`LOCK TABLE ${table} IN ${mode} MODE`, permitted] as const]
  })
]

describe("The generated roles", () => {
  for (const role of [...roleNames, "reader with proofs"] as const) {
    it.live(`${role} has exactly the listed privileges, on each table and column and with each verb`, () =>
      Effect.gen(function*() {
        const proofs = role === "reader with proofs"
        const listed = proofs ? { ...roles.reader.tables, ...proofTables } : roles[role].tables
        const { as, asSuperuser } = yield* rolesWith({ proofs })
        const columns = yield* asSuperuser(catalog)
        const tables = [...new Set(columns.map(({ table }) => table))]
        // Every listed name exists: a misspelled name would grant nothing.
        for (const [table, privileges] of Object.entries(listed)) {
          for (const verb of Object.keys(columnVerbs) as ReadonlyArray<keyof typeof columnVerbs>) {
            const known = columns.filter((column) => column.table === table).map(({ column }) => column)
            const named = privileges[verb]
            if (named !== undefined && named !== "all") assert.includeMembers(known, [...named], table)
          }
        }
        const attempts = [
          ...columns.flatMap((column) =>
            Object.entries(columnVerbs).map(([verb, statement]) =>
              [
                statement(column),
                includes(listed[column.table]?.[verb as keyof typeof columnVerbs], column.column)
              ] as const
            )
          ),
          ...tables.flatMap((table) => tableStatements(table, listed[table] ?? {}))
        ]
        assert.isAbove(attempts.length, 400)
        const outcomes = yield* Effect.scoped(Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const connection = yield* sql.reserve
          return yield* Effect.forEach(attempts, ([statement]) => tried(connection, statement))
        })).pipe(Effect.provide(as(proofs ? "reader" : role)))
        const wrong = attempts.flatMap(([statement, permitted], n) =>
          outcomes[n] === (permitted ? null : insufficientPrivilege) ? [] : [`${statement}: ${outcomes[n]}`]
        )
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped, Effect.provide(Platform)))
  }

  it.live("name every table, and every function with the rights of the owner", () =>
    Effect.gen(function*() {
      const { asSuperuser, nameOf } = yield* rolesWith()
      const tables = (yield* asSuperuser(catalog)).map(({ table }) => table)
      const named = [...Object.values(roles).flatMap((role) => Object.keys(role.tables)), ...Object.keys(proofTables)]
      assert.sameMembers([...new Set([...named, ...closedTables])], [...new Set(tables)])
      const functions = yield* asSuperuser(SqlClient.SqlClient.use((sql) =>
        sql<{ readonly name: string; readonly args: string; readonly oid: number }>`
          SELECT proname AS name, oid::int FROM pg_proc
          WHERE pronamespace = current_schema()::regnamespace AND prosecdef`
      ))
      for (const role of roleNames) {
        const own = roles[role].functions
        assert.includeMembers(
          functions.map(({ name }) =>
            name
          ),
          [...own]
        )
        const callable = yield* asSuperuser(SqlClient.SqlClient.use((sql) =>
          Effect.filter(functions, ({ oid }) =>
            Effect.map(
              sql<{ readonly may: boolean }>`
                SELECT has_function_privilege(${nameOf(role)}, ${oid}::oid, 'EXECUTE') AS may`,
              ([row]) => row!.may
            ))
        ))
        assert.sameMembers(
          callable.map(({ name }) =>
            name
          ),
          [...own],
          role
        )
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("lose the default rights of every role: large objects, advisory locks, tables of their own", ({ skip }) =>
    Effect.gen(function*() {
      const { as, asSuperuser } = yield* rolesWith()
      skip(!(yield* asSuperuser(isSuperuser)), "only a superuser may revoke them")
      const statements = [
        "SELECT lo_create(0)",
        "SELECT lo_creat(-1)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_advisory_lock_shared(1, 1)",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT pg_try_advisory_lock(1, 1)",
        "SELECT pg_try_advisory_xact_lock_shared(1)",
        "CREATE TABLE own (x int)",
        "CREATE TEMP TABLE forged (LIKE operations)",
        "CREATE SCHEMA own",
        "SET session_replication_role = replica",
        "SELECT * FROM grant_locks",
        "SELECT lock_grants('client', true)",
        "SELECT write_grant('i', 'g', 'c', 's', 'o', 'p', '{}', now(), now(), gen_random_uuid(), true)"
      ]
      for (const role of roleNames) yield* Effect.provide(Effect.forEach(statements, denied), as(role))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of writer and reader have the privileges for their work", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const { id, token } = yield* Effect.gen(function*() {
        const grants = yield* Grants
        const ledger = yield* OperationLedger
        const { access_token, grant } = yield* grants.issue(request)
        const identity = { grant_id: grant.grant_id, client_id: grant.client_id, subject: grant.subject }
        const payment = { type: "payment", key: IdempotencyKey.make("k"), payload: { amount: 1 } }
        const { operation } = yield* ledger.accept(identity, payment)
        yield* ledger.accept(identity, payment)
        yield* ledger.transition(operation.id, 1, { state: "submitting" }, { by: "test" })
        yield* ledger.history(operation.id)
        yield* submit(identity)
        yield* grants.register(registration)
        yield* grants.register({ ...registration, scopes: [] })
        yield* grants.register({ ...registration, grant: ExternalId.make("shown"), learned_from: "token" })
        for (let times = 0; times < 2; times++) {
          yield* grants.revokeExternal(registration)
          yield* grants.revokeSubject(registration)
          yield* grants.revokeClient(registration)
          yield* grants.revokeClient({ client_id: registration.client_id })
        }
        const { grant: other } = yield* grants.issue(request)
        assert.isNotNull((yield* grants.revoke(other.grant_id)).revoked_at)
        yield* grants.setClientActive(grant.client_id, true)
        yield* grants.setProviderConnected(grant.provider_connection_id, true)
        assert.deepStrictEqual(yield* GrantBlockers.use((blockers) => blockers.list(Duration.zero)), [])
        return { id: operation.id, token: access_token, grant }
      }).pipe(
        Effect.provide(
          Layer.mergeAll(Grants.layer, GrantBlockers.layer, OperationLedger.layer, SubmissionQueue.layer).pipe(
            Layer.provideMerge(as("writer"))
          )
        )
      )

      yield* Effect.gen(function*() {
        yield* (yield* Readiness).check
        const identity = yield* (yield* GrantVerifier).verify(bearer(token))
        const store = yield* OperationStore
        assert.strictEqual((yield* store.find(identity, id)).state, "submitting")
      }).pipe(
        Effect.provide(
          Layer.mergeAll(Readiness.layer, GrantVerifier.layer, OperationStore.layer).pipe(
            Layer.provide(as("reader", { startupParameters: { default_transaction_read_only: "on" } }))
          )
        )
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of a reader that checks DPoP proofs can store and delete them", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith({ proofs: true })
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const proof = { jkt: "key", jti: "proof", expires_at: DateTime.makeUnsafe(0) }
        const isFirst = ProofReplay.use((replay) => replay.remember(proof))
        assert.isTrue(yield* isFirst)
        assert.isFalse(yield* isFirst)
        yield* TestClock.adjust("36 seconds")
        while ((yield* sql`SELECT digest FROM dpop_proofs`).length > 0);
      }).pipe(
        Effect.provide(Layer.provideMerge(ProofReplay.layer, as("reader"))),
        Effect.provide(TestClock.layer())
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of the provisioner can register grants from tokens and see revocations, and cannot revoke", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const shown = { ...registration, learned_from: "token" } as const
      const revoked = { ...shown, grant: ExternalId.make("revoked") }
      yield* Effect.provide(
        Grants.use((grants) => grants.revokeExternal(revoked)),
        Layer.provide(Grants.layer, as("writer"))
      )
      yield* Effect.gen(function*() {
        const grants = yield* Grants
        const grant = yield* grants.register(shown)
        assert.isNull(grant.revoked_at)
        const later = DateTime.makeUnsafe("2100-01-02T00:00:00Z")
        const scopes = [operationsRead, Scope.make("more")]
        assert.deepStrictEqual(
          yield* grants.register({ ...shown, scopes, expires_at: later }),
          { ...grant, scopes, expires_at: later }
        )
        assert.isNotNull((yield* grants.register(revoked)).revoked_at)
        yield* denied("SELECT register_grant('i', 'g', 'c', 's', 'o', 'p', '{}', now(), now(), gen_random_uuid())")
        yield* denied("SELECT revoke_grants('their-client', NULL, NULL, NULL, false)")
      }).pipe(Effect.provide(Layer.provideMerge(Grants.layer, as("provisioner"))))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.effect("may send any NOTIFY: a forged one makes a worker poll at most once", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const channel = "financial_agents_gateway_accepted"
      const other = Provider.make("another-bank")
      const claimed: Array<Provider> = []
      const listener = yield* Layer.build(Layer.fresh(PgAcceptanceSignal.layer).pipe(Layer.provide(as("writer"))))
      const world = yield* makeWorld({
        signal: yield* Effect.provideContext(AcceptanceSignal, listener),
        providers: [other],
        queue: (queue) => ({
          claim: (provider, ...args) => {
            claimed.push(provider)
            return queue.claim(provider, ...args)
          }
        })
      })
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 milli")
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const listening = sql`SELECT 1 FROM pg_stat_activity WHERE usename = session_user AND query LIKE 'LISTEN%'`
        while ((yield* listening).length === 0);
      }).pipe(Effect.provide(as("writer")))
      claimed.length = 0
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const forge = (payload: string) => sql`SELECT pg_notify(${channel}, ${payload})`
        for (let n = 0; n < 25; n++) yield* forge("bank")
        for (const payload of ["", "no name", "unknown-bank", "x".repeat(7999), "bank' OR true"]) yield* forge(payload)
        yield* sql`NOTIFY another_channel, 'bank'`
        yield* forge(other)
        // Notifications arrive in order: the others have arrived when this one does.
        while (!claimed.includes(other)) yield* sql`SELECT 1`
      }).pipe(Effect.provide(as("reader")))
      assert.isAtMost(claimed.length, 26)
      assert.sameMembers([...new Set(claimed)], [Provider.make("bank"), other])
      assert.deepStrictEqual(world.attempts, [])
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of the owner can migrate without being a superuser", () =>
    Effect.gen(function*() {
      const { applied } = yield* rolesWith()
      assert.isAbove(applied.length, 2)
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("lose the privileges of an earlier version with the next GRANTs", () =>
    Effect.gen(function*() {
      const { as, database, nameOf } = yield* rolesWith({ proofs: true })
      const asOwner = (statements: ReadonlyArray<string>) =>
        Effect.provide(
          SqlClient.SqlClient.use((sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement).unprepared)),
          as("owner")
        )
      yield* asOwner([
        `GRANT SELECT ON provider_connections, grant_locks TO ${nameOf("reader")}`,
        `GRANT UPDATE (scopes, expires_at) ON grants TO ${nameOf("reader")}`,
        `GRANT EXECUTE ON FUNCTION revoke_grants TO ${nameOf("provisioner")}`
      ])
      yield* asOwner(grantPrivileges({ prefix: database }))
      const forbidden = [
        "SELECT provider FROM provider_connections",
        "SELECT * FROM grant_locks",
        "SELECT * FROM dpop_proofs",
        "UPDATE grants SET expires_at = now()"
      ]
      yield* Effect.provide(Effect.forEach(forbidden, denied), as("reader"))
      yield* Effect.provide(denied("SELECT revoke_grants('c', NULL, NULL, NULL, false)"), as("provisioner"))
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

describe("The statements that create the roles", () => {
  const document = fs.readFileSync("docs/postgresql.md", "utf8")

  it("are equal to those in the documentation", () => {
    const scripts = [createRoles("gateway"), protectDatabase, grantPrivileges(), grantProofs()]
    for (const script of scripts) assert.include(document, `\`\`\`sql\n${script.join("\n")}\n\`\`\``)
  })

  it("are the only GRANTs in the documentation", () => {
    const shown = [...document.matchAll(/```sql\n(.*?)```/gs)].map(([, text]) => text!)
      .filter((text) => /^(?:GRANT|REVOKE|CREATE ROLE) /m.test(text))
    assert.lengthOf(shown, 4)
  })

  it.live("are printed by the command line, for roles of any plain name, and without a database", () =>
    Effect.gen(function*() {
      const naming = { prefix: "other" }
      const granted = yield* run(["roles", "grant", "--prefix", "other", "--proofs"], {})
      const expected = ["BEGIN;", ...grantPrivileges(naming), ...grantProofs(naming), "COMMIT;", ""]
      assert.deepStrictEqual(granted, { code: 0, stdout: expected.join("\n"), stderr: "" })
      assert.notInclude(granted.stdout, "gateway_reader")
      const created = yield* run(["roles", "create", "--prefix", "other", "--database", "ledger"], {})
      assert.strictEqual(
        created.stdout,
        [...createRoles("ledger", naming), "\\connect ledger", ...protectDatabase, ""].join("\n")
      )
      for (const name of ["a; DROP TABLE x", "A", "1", "", "x".repeat(49)]) {
        const { code, stdout } = yield* run(["roles", "grant", `--prefix=${name}`], {})
        assert.deepStrictEqual([code, stdout], [1, ""])
      }
    }))
})
