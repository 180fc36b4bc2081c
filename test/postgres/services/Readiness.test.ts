/**
 * The gateway is ready exactly when its database answers in time and has every migration. The tests change, lock and
 * stop databases of the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { migrate } from "../../../src/services/Migrations.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { fieldsOf } from "../../fixtures/ledger/Ledger.ts"
import { anotherPool, whileLocked } from "../../fixtures/postgres/Pools.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"

const notReady = (reason: string) => ({ _tag: "NotReady", reason })
const check = Readiness.use((readiness) => readiness.check)

/** Runs a test on a database of its own, in which `Readiness` has connections of its own. */
const onDatabase = <A, E, R>(options: { readonly empty: boolean }, body: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    createDatabase(options),
    (database) =>
      Effect.provide(body, Layer.provideMerge(Layer.provide(Readiness.layer, anotherPool()), layerFor(database)))
  ).pipe(
    Effect.scoped,
    Effect.provide(Platform)
  )

describe("readiness", () => {
  it.live("succeeds when the database answers and has every migration", () => onDatabase({ empty: false }, check))

  it.live("fails before the migrations, and succeeds after them without a restart", () =>
    onDatabase(
      { empty: true },
      Effect.gen(function*() {
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(check)), notReady("migrations_missing"))
        yield* migrate
        yield* check
      })
    ))

  it.live("fails when the latest migration is missing, and when all are", () =>
    onDatabase(
      { empty: false },
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          DELETE FROM financial_agents_gateway_migrations
          WHERE migration_id = (SELECT max(migration_id) FROM financial_agents_gateway_migrations)`
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(check)), notReady("migrations_missing"))
        yield* sql`DELETE FROM financial_agents_gateway_migrations`
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(check)), notReady("migrations_missing"))
      })
    ))

  it.live("succeeds when the database is newer than the gateway", () =>
    onDatabase(
      { empty: false },
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`INSERT INTO financial_agents_gateway_migrations (migration_id, name) VALUES (9999, 'later')`
        yield* check
      })
    ))

  it.live("fails when the database does not answer, and succeeds when it answers again", () =>
    onDatabase(
      { empty: false },
      Effect.gen(function*() {
        yield* check
        const errors = yield* whileLocked(
          "financial_agents_gateway_migrations",
          Effect.all([Effect.flip(check), Effect.flip(check)], { concurrency: "unbounded" })
        )
        for (const error of errors) assert.deepStrictEqual(fieldsOf(error), notReady("no_answer"))
        yield* check
      })
    ))

  it.live("fails when no database listens, and names neither host nor credential", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(check)
      assert.deepStrictEqual(fieldsOf(error), notReady("no_answer"))
      const shown = inspect(error, { depth: Infinity }) + JSON.stringify(error) + String(error)
      for (const secret of ["/nowhere", "hunter2", "stranger"]) assert.notInclude(shown, secret)
    }).pipe(
      Effect.provide(
        Readiness.layer.pipe(
          Layer.provide(
            layerFor("nothing", { host: "/nowhere", username: "stranger", password: Redacted.make("hunter2") })
          ),
          Layer.provide(Platform)
        )
      )
    ))

  it.effect("always succeeds for a store without a database", () => check.pipe(Effect.provide(Readiness.layerAlways)))
})
