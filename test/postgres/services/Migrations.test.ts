/**
 * Migrations are applied once each, in order, by exactly one process. The tests migrate empty databases of the real
 * PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeIsMigrated, migrate } from "../../../src/services/Migrations.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/TestDatabase.ts"

const all = ["0001_grants", "0002_operations", "0003_submission", "0004_authorization", "0005_accepted_scopes"]

const onNewDatabase = <A, E, R>(body: (database: string) => Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.flatMap(createDatabase({ empty: true }), body)).pipe(Effect.provide(Platform))

describe("Migrations", () => {
  it.live("are applied once each, in order, and are not applied again", () =>
    onNewDatabase((database) =>
      Effect.gen(function*() {
        const isMigrated = yield* makeIsMigrated
        assert.isFalse(yield* isMigrated)
        assert.deepStrictEqual(yield* migrate, all)
        assert.isTrue(yield* isMigrated)
        assert.deepStrictEqual(yield* migrate, [])
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
        assert.deepStrictEqual(applied.flat().toSorted(), all)
      })
    ))

  it.live("make the database not ready if one of them is missing", () =>
    onNewDatabase((database) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* migrate
        yield* sql`DELETE FROM financial_agents_gateway_migrations WHERE migration_id = ${all.length}`
        assert.isFalse(yield* yield* makeIsMigrated)
      }).pipe(Effect.provide(layerFor(database)))
    ))
})
