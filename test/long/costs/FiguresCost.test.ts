/** Reading the figures costs the same in any ledger. The test reads the execution plan of PostgreSQL. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { maxDueCount } from "../../../src/domain/operators/FiguresForm.ts"
import { LedgerFigures } from "../../../src/services/operators/LedgerFigures.ts"
import { failedStatement, nowStatement } from "../../../src/services/sql/operators/figureStatements.ts"
import { fillQueue } from "../../fixtures/ledger/FilledQueue.ts"
import { issueAgain, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { assertExact } from "../../fixtures/ledger/PlainFigures.ts"
import { issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { planOf, rowsOf } from "../../fixtures/postgres/Plans.ts"

const Figures = LedgerFigures.layer.pipe(Layer.provideMerge(PostgresLedger))

/** Rows of operations that the plan of the figures reads, including those that it discards. */
const rowsOfNow = Effect.map(
  Effect.forEach([nowStatement, failedStatement], (text) => planOf({ text, parameters: [] }, "force_custom_plan")),
  (plans) =>
    plans.flat().filter((node) => node["Relation Name"] === "operations").reduce((sum, node) => sum + rowsOf(node), 0)
)

layer(Figures, { excludeTestServices: true })("counts of moves", (it) => {
  it.effect(
    "are read at a cost that does not depend on the numbers of due, waiting, unsettled and settled operations",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { grant } = yield* issueAtNewProvider()
        const { grant: other } = yield* issueAgain(grant, { client_id: "a-client" as never })
        const fill = (count: number) =>
          Effect.gen(function*() {
            yield* fillQueue(grant, { count })
            yield* fillQueue(other, { count, waiting: true, due_in: 3600 })
            yield* fillQueue(other, { count, waiting: true, lacks_key: true, due_in: 3600 })
            yield* fillQueue(other, { count, behind: 1, waiting: true, due_in: 3600 })
            yield* fillQueue(grant, { count, state: "submitting", returned: true })
            yield* fillQueue(grant, { count, state: "submitting", due_in: 3600 })
            yield* fillQueue(grant, { count, state: "indeterminate" })
            yield* fillQueue(grant, { count, state: "succeeded" })
            yield* fillQueue(grant, { count, state: "failed" })
            yield* sql`SELECT recount_operations()`
          })
        yield* fill(2 * maxDueCount)
        const few = yield* rowsOfNow
        yield* fill(10 * maxDueCount)
        // Without statistics of the new rows, and with them.
        for (const step of [Effect.void, sql`ANALYZE operations, operation_counts`]) {
          yield* step
          assert.isAtMost(yield* rowsOfNow, few + 10)
        }
        yield* assertExact("the filling")
      })
  )
})
