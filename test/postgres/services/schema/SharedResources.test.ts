/**
 * A stolen reader or provisioner can use up nothing that all sessions share: no WAL, no files, no connections. The tests log in as
 * the roles of the command line on the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientId, Issuer } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { isSuperuser } from "../../../fixtures/postgres/Pools.ts"
import { sqlStateOf } from "../../../fixtures/postgres/RawSql.ts"
import { denied, rolesWith } from "../../../fixtures/postgres/Roles.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const stolen = ["reader", "provisioner"] as const

/** SQLSTATE of a statement or a session beyond a limit. */
const configurationLimitExceeded = "53400"
const tooManyConnections = "53300"

const stateOf = (statement: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.match(sql.unsafe(statement).unprepared, {
      onSuccess: () => null,
      onFailure: sqlStateOf
    })
  )

describe("A stolen reader or provisioner", () => {
  it.live("writes no WAL, no large object and no snapshot by functions, with any of their parameters", ({ skip }) =>
    Effect.gen(function*() {
      const { as, asSuperuser } = yield* rolesWith()
      skip(!(yield* asSuperuser(isSuperuser)), "only a superuser may revoke them")
      // Every form that this version has.
      const functions = yield* asSuperuser(SqlClient.SqlClient.use((sql) =>
        sql<{ readonly call: string }>`
          SELECT proname || '(' || (
            SELECT string_agg(format('''0''::%s', format_type(type, NULL)), ', ') FROM unnest(proargtypes) AS type
          ) || ')' AS call FROM pg_proc
          WHERE pronamespace = 'pg_catalog'::regnamespace
            AND proname IN ('pg_logical_emit_message', 'lo_creat', 'lo_create', 'lo_from_bytea')`
      ))
      assert.isAtLeast(functions.length, 5)
      for (const role of stolen) {
        yield* Effect.provide(
          Effect.forEach(
            [...functions.map(({ call }) => call), "pg_export_snapshot()"],
            (call) => denied(`SELECT ${call}`)
          ),
          as(role)
        )
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("may still confirm what it has seen, as the writer may: by an empty message of the owner", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      for (const role of [...stolen, "writer"] as const) {
        const [row] = yield* Effect.provide(
          SqlClient.SqlClient.use((sql) =>
            sql.unsafe<{ readonly gap: string }>("CALL confirm_replication()").unprepared
          ),
          as(role)
        )
        assert.strictEqual(row!.gap, "synchronous_standby_names is empty", role)
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("fills no disk with temporary files, and cannot lift that limit", ({ skip }) =>
    Effect.gen(function*() {
      const { as, asSuperuser } = yield* rolesWith()
      skip(!(yield* asSuperuser(isSuperuser)), "only a superuser may set the limit")
      for (const role of stolen) {
        yield* Effect.gen(function*() {
          const spill =
            "WITH s AS MATERIALIZED (SELECT n, repeat('x', 1000) FROM generate_series(1, 100000) n) TABLE s OFFSET 100000"
          assert.strictEqual(yield* stateOf(spill), configurationLimitExceeded)
          yield* denied("SET temp_file_limit = -1")
          yield* denied("ALTER ROLE CURRENT_USER RESET temp_file_limit")
        }).pipe(Effect.provide(as(role)))
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("takes no more connections than its limit: the writer still revokes", () =>
    Effect.gen(function*() {
      const limits = { reader: 2, provisioner: 1 }
      const { as } = yield* rolesWith({ limits })
      for (const role of stolen) {
        const open = Effect.flatMap(
          Layer.build(as(role, { maxConnections: 1 })),
          (services) => Context.get(services, SqlClient.SqlClient).reserve
        )
        const held = yield* Scope.make()
        yield* Effect.forEach(Array.from({ length: limits[role] }), () => Scope.provide(open, held))
        const refused = yield* Effect.flip(Effect.scoped(open))
        assert.strictEqual(sqlStateOf(refused), tooManyConnections, role)
        const revoked = Grants.use(({ revokeClient }) =>
          revokeClient({ client_id: "agent" as ClientId, issuer: "https://as.test" as Issuer })
        )
        assert.strictEqual(yield* Effect.provide(revoked, Layer.provide(Grants.layer, as("writer"))), 0)
        yield* Scope.close(held, Exit.void)
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
