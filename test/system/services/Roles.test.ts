/**
 * The generated roles can do their work, and nothing else. The tests try every statement on each table and column of
 * PostgreSQL as each role.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlConnection } from "effect/sql"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { connectionLimits } from "../../../src/node/postgres/poolSizes.ts"
import { LedgerFigures } from "../../../src/services/operators/LedgerFigures.ts"
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
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { isSuperuser } from "../../fixtures/postgres/Pools.ts"
import { sqlStateOf } from "../../fixtures/postgres/RawSql.ts"
import { denied, insufficientPrivilege, roleNames, rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { run } from "../../fixtures/processes/CommandLine.ts"

/** The result of a statement in a transaction that is rolled back: null, or the SQLSTATE of the refusal. */
const tried = (connection: SqlConnection.Connection, statement: string) =>
  Effect.gen(function*() {
    const run = (text: string) => connection.executeUnprepared(text, [], undefined)
    yield* run("BEGIN")
    const outcome = yield* Effect.result(run(statement))
    yield* run("ROLLBACK")
    return outcome._tag === "Success" ? null : sqlStateOf(outcome.failure)
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

/** The roles without those for proofs. The tests that share them leave their privileges as they are. */
class Generated extends Context.Service<Generated, Effect.Success<ReturnType<typeof rolesWith>>>()("test/Generated") {
  static readonly layer = Layer.provideMerge(Layer.effect(Generated, rolesWith()), Platform)
}

layer(Generated.layer, { excludeTestServices: true })("The generated roles", (it) => {
  for (const role of [...roleNames, "reader with proofs"] as const) {
    it.effect(`${role} has exactly the listed privileges, on each table and column and with each verb`, () =>
      Effect.gen(function*() {
        const proofs = role === "reader with proofs"
        const listed = proofs ? { ...roles.reader.tables, ...proofTables } : roles[role].tables
        const { as, asSuperuser } = proofs ? yield* rolesWith({ proofs }) : yield* Generated
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
      }))
  }

  it.effect("name every table, and every function with the rights of the owner", () =>
    Effect.gen(function*() {
      const { asSuperuser, nameOf } = yield* Generated
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
    }))

  it.effect("lose the default rights of every role: large objects, advisory locks, tables of their own", ({ skip }) =>
    Effect.gen(function*() {
      const { as, asSuperuser } = yield* Generated
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
    }))

  it.effect("lose the privileges of an earlier version with the next GRANTs, but for the reader's right to check proofs", () =>
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
        `GRANT ALL ON dpop_proofs TO ${nameOf("provisioner")}`,
        `GRANT UPDATE ON dpop_proofs TO ${nameOf("reader")}`,
        `GRANT EXECUTE ON FUNCTION revoke_grants TO ${nameOf("provisioner")}`
      ])
      yield* asOwner(grantPrivileges({ prefix: database }))
      const forbidden = [
        "SELECT provider FROM provider_connections",
        "SELECT * FROM grant_locks",
        "UPDATE dpop_proofs SET expires_at = now()",
        "UPDATE grants SET expires_at = now()"
      ]
      yield* Effect.provide(Effect.forEach(forbidden, denied), as("reader"))
      const check = "INSERT INTO dpop_proofs (digest, expires_at) SELECT NULL, NULL WHERE false"
      yield* Effect.provide(SqlClient.SqlClient.use((sql) => sql.unsafe(check)), as("reader"))
      yield* Effect.provide(denied(check), as("provisioner"))
      yield* Effect.provide(denied("SELECT revoke_grants('c', NULL, NULL, NULL, false)"), as("provisioner"))
    }))

  it.effect("let the reader read figures about the ledger, and the writer keep them, who can change no count", () =>
    Effect.gen(function*() {
      const { as } = yield* Generated
      const report = {
        process_id: randomUUID(),
        worker_id: "first",
        pauses: { bank: "status 401" },
        clock_skew_ms: -2500
      } as const
      yield* Effect.gen(function*() {
        const queue = yield* Queue
        yield* queue.reportWorker(report)
        yield* queue.reportWorker({ ...report, process_id: randomUUID() })
        yield* queue.readClock
        yield* queue.foldCounts
        yield* denied("DELETE FROM operation_counts")
        yield* denied("SELECT recount_operations()")
      }).pipe(Effect.provide(SubmissionQueue.layer.pipe(Layer.provideMerge(as("writer")))))
      yield* Effect.gen(function*() {
        const { flow, now } = yield* LedgerFigures
        const { operations, workers } = yield* now
        assert.deepStrictEqual(operations, [])
        const { seen_at, started_at, ...seen } = workers.find(({ process_id }) => process_id === report.process_id)!
        assert.deepStrictEqual(seen, { ...report, version: "unknown" })
        assert.isAtMost(started_at.epochMilliseconds, seen_at.epochMilliseconds)
        assert.deepStrictEqual(yield* flow(24), [])
        yield* denied("SELECT fold_operation_counts('0')")
      }).pipe(Effect.provide(LedgerFigures.layer.pipe(Layer.provideMerge(as("reader")))))
    }))
})

describe("The statements that create the roles", () => {
  const document = fs.readFileSync("docs/postgresql.md", "utf8")

  it("limit reader and provisioner to the sums of their pools, which the documentation lists", () => {
    const rows = [...document.matchAll(/^\| `(\w+)`.*?\|.*?\| (\d+)(?: and \d+)? \| [\d.]+ s \|/gm)]
    const sizes = new Map(rows.map(([, pool, size]) => [pool!, Number(size)]))
    const sum = (...pools: ReadonlyArray<string>) => pools.reduce((total, pool) => total + sizes.get(pool)!, 0)
    for (const processes of [1, 7]) {
      assert.deepStrictEqual(connectionLimits(processes), {
        reader: (processes + 1) * sum(
          "ReaderPool",
          "ListPool",
          "ProbePool",
          "ProofPool",
          "FiguresPool",
          "read_index"
        ),
        provisioner: (processes + 1) * sum("ProvisioningPool")
      })
    }
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
        [...createRoles("ledger", connectionLimits(1), naming), "\\connect ledger", ...protectDatabase(naming), ""]
          .join("\n")
      )
      const many = yield* run(["roles", "create", "--processes", "3"], {})
      assert.include(many.stdout, `CREATE ROLE gateway_reader LOGIN CONNECTION LIMIT ${connectionLimits(3).reader};`)
      const none = yield* run(["roles", "create", "--processes", "0"], {})
      assert.deepStrictEqual([none.code, none.stdout], [1, ""])
      for (const name of ["a; DROP TABLE x", "A", "1", "", "x".repeat(49)]) {
        const { code, stdout } = yield* run(["roles", "grant", `--prefix=${name}`], {})
        assert.deepStrictEqual([code, stdout], [1, ""])
      }
    }))
})
