/**
 * Migrations are applied once each, in order, by exactly one process. The tests migrate empty databases of the real
 * PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { makeIsMigrated, migrate } from "../../../../src/services/Migrations.ts"
import { applyMigrations, type StartedMigration } from "../../../../src/services/sql/applyMigrations.ts"
import { createDatabase, layerFor, Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const all = [
  "0001_grants",
  "0002_ledger_home",
  "0003_operations",
  "0004_operation_history",
  "0005_operation_payloads",
  "0006_operation_rules",
  "0007_grant_revocations",
  "0008_grant_functions",
  "0009_dpop_proofs",
  "0010_change_feed",
  "0011_operation_counts",
  "0012_operator_actions",
  "0013_provider_limits",
  "0014_replication",
  "0015_witness",
  "0016_token_keys",
  "0017_clock_skew",
  "0018_confirmation_message",
  "0019_operator_evidence",
  "0020_unsent_operations",
  "0021_operator_advances",
  "0022_pauses",
  "0023_operation_terms",
  "0024_payee_index",
  "0025_sendable_operations",
  "0026_unauthorized",
  "0027_reversals",
  "0028_evidence_time",
  "0029_fences",
  "0030_operator_outcomes",
  "0031_fenced_operations",
  "0032_provider_accounts",
  "0033_operator_references",
  "0034_limits",
  "0035_approvals",
  "0036_approval_proofs"
]

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
        assert.deepStrictEqual(yield* follow, all)
        assert.deepStrictEqual(started, all.map((name, at) => ({ name, number: at + 1, total: all.length })))
        assert.isTrue(yield* isMigrated)
        assert.deepStrictEqual(yield* follow, [])
        assert.lengthOf(started, all.length)
        yield* sql`DELETE FROM financial_agents_gateway_migrations`
        yield* Effect.flip(follow)
        assert.deepStrictEqual(started.at(-1), { name: all[0], number: 1, total: all.length })
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
