/**
 * Migrations are applied once each, in order, by exactly one process. The tests migrate empty databases of the real
 * PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { applyMigrations, makeIsMigrated, migrate, type StartedMigration } from "../../../../src/services/Migrations.ts"
import { migrations } from "../../../fixtures/postgres/migrations.ts"
import { createDatabase, layerFor, Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const onNewDatabase = <A, E, R>(body: (database: string) => Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.flatMap(createDatabase({ empty: true }), body)).pipe(Effect.provide(Platform))

describe("Migrations", () => {
  it.live("are applied once each, in order, and each is announced before it starts", () =>
    onNewDatabase((database) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const isMigrated = yield* makeIsMigrated
        const started: Array<StartedMigration> = []
        const follow = applyMigrations((one) => Effect.sync(() => void started.push(one)))
        assert.isFalse(yield* isMigrated)
        assert.deepStrictEqual(yield* follow, migrations)
        assert.deepStrictEqual(
          started,
          migrations.map((name, at) => ({ name, number: at + 1, total: migrations.length }))
        )
        assert.isTrue(yield* isMigrated)
        assert.deepStrictEqual(yield* follow, [])
        assert.lengthOf(started, migrations.length)
        yield* sql`DELETE FROM financial_agents_gateway_migrations`
        yield* Effect.flip(follow)
        assert.deepStrictEqual(started.at(-1), { name: migrations[0], number: 1, total: migrations.length })
      }).pipe(Effect.provide(layerFor(database)))
    ))

  it.live("are applied by exactly one of several processes that start at once", () =>
    onNewDatabase((database) =>
      Effect.gen(function*() {
        const applied = yield* Effect.forEach(
          Array.from({ length: 8 }),
          () => Effect.provide(migrate, Layer.fresh(layerFor(database))),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(applied.flat().toSorted(), migrations)
      })
    ))

  it.live("leave every trigger on, also for replication, and no function with two bodies", () =>
    onNewDatabase((database) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* migrate
        const triggers = yield* sql<{ readonly name: string; readonly enabled: string }>`
          SELECT tgname AS name, tgenabled::text AS enabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname`
        assert.isAtLeast(triggers.length, 12)
        assert.deepStrictEqual(triggers.filter(({ enabled }) => enabled !== "A"), [])
        const text = fs.globSync("migrations/*.sql").map((file) => fs.readFileSync(file, "utf8")).join("\n")
        const functions = [...text.matchAll(/CREATE (?:OR REPLACE )?FUNCTION (\w+)/g)].map(([, name]) => name!)
        assert.deepStrictEqual(functions.filter((name, at) => functions.indexOf(name) !== at), [])
      }).pipe(Effect.provide(layerFor(database)))
    ))
})
