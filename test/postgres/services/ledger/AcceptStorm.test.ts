/**
 * Concurrent acceptances create one operation for each idempotency key and refuse every conflict. The test runs
 * thousands of callers, some of which send batches, against PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { issue, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { anotherProcess } from "../../../fixtures/postgres/Pools.ts"
import { storm } from "../../../long/faults/storm/Storm.ts"

layer(PostgresLedger, { excludeTestServices: true })("a storm of acceptances", (it) => {
  it.effect("creates one operation for each key and refuses every conflict: 5,000 acceptances, 1,000 callers", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const result = yield* storm({
        accepts: 5000,
        callers: 1000,
        repetitions: 20,
        batch: 30,
        processes: yield* Effect.all(
          Array.from({ length: 3 }, () => Layer.build(anotherProcess({ maxConnections: 3 })))
        ),
        grant: identity
      })
      assert.deepStrictEqual(result.violations, [])
      assert.isAbove(result.conflicts, 300)
      assert.strictEqual(result.created, result.keys)
      const [stored] = yield* sql`
        SELECT count(*)::int AS operations, count(DISTINCT idempotency_key)::int AS keys FROM operations`
      assert.deepStrictEqual(stored, { operations: result.keys, keys: result.keys })
    }))
})
