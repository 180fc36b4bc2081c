/**
 * PostgreSQL plans the statements of an acceptance once for each connection, and reads only the operations of the keys. The tests count
 * plans in a session of `WriterPool`, and rows in execution plans.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { WriterPool } from "../../../src/node/postgres/Pools.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { maxBatchRequests } from "../../../src/services/rules/prepareAcceptance.ts"
import { boundStatement } from "../../../src/services/sql/ledger/SqlAcceptances.ts"
import { fill } from "../../fixtures/ledger/FilledLedger.ts"
import { accept, issue, newKey, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { gatewayDatabase } from "../../fixtures/postgres/GatewayDatabase.ts"
import { planModes, planOf, ReaderConnection, rowsOf } from "../../fixtures/postgres/Plans.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

/** PostgreSQL plans so many executions for their values before it compares their cost with that of one plan for all. */
const firstPlans = 5

/** The ledger as the gateway has it. */
const GatewayLedger = Layer.fresh(OperationLedger.layer).pipe(
  Layer.provideMerge(Layer.fresh(WriterPool)),
  Layer.provide(Platform)
)

layer(PostgresLedger, { excludeTestServices: true })("an acceptance", (it) => {
  it.effect("has one plan for all calls of a connection, whether it creates an operation or finds one", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const calls = 4 * firstPlans
      const plans = yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        // A transaction has one session.
        return yield* sql.withTransaction(Effect.gen(function*() {
          for (let call = 0; call < calls; call++) {
            const key = newKey()
            yield* accept(identity, { key })
            yield* accept(identity, { key })
          }
          return yield* sql<{ readonly creates: boolean; readonly custom: number; readonly generic: number }>`
            SELECT statement LIKE '%INSERT INTO operations%' AS creates, custom_plans::integer AS custom,
              generic_plans::integer AS generic
            FROM pg_prepared_statements
            WHERE statement LIKE '%FROM grants g%' AND statement NOT LIKE '%pg_prepared_statements%'
            ORDER BY 1 DESC`
        }))
      }).pipe(Effect.provide(Layer.provide(GatewayLedger, gatewayDatabase())))
      assert.deepStrictEqual(plans, [
        { creates: true, custom: firstPlans, generic: 2 * calls - firstPlans },
        { creates: false, custom: firstPlans, generic: calls - firstPlans }
      ])
    }))

  it.effect("that repeats a batch reads only the operations of its keys, with and without statistics of the table", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* fill(1, 4 * maxBatchRequests)
      const numbers = Array.from({ length: maxBatchRequests }, (_, n) => n + 1)
      const parameters = [
        identity.grant_id,
        identity.client_id,
        identity.subject,
        numbers.map((n) => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`),
        numbers.map((n) => `key-${n}`),
        numbers.map(() => "00"),
        null,
        null
      ]
      for (const when of ["without statistics", "with statistics"]) {
        for (const mode of planModes) {
          const plan = yield* Effect.provide(planOf({ text: boundStatement, parameters }, mode), ReaderConnection)
          const rows = plan.filter((node) => node["Relation Name"] === "operations").map(rowsOf)
          assert.deepStrictEqual(rows, [maxBatchRequests], `${when}, ${mode}`)
        }
        yield* sql`ANALYZE`
      }
    }))
})
