/**
 * No list of one client stops the reads of others. At a million operations each combination of filters looks at a bounded
 * number of rows. Filtered lists run a few at a time for each client, and a list whose client has gone is cancelled.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { operationStates } from "../../../src/domain/Operation.ts"
import { maxLookedAt, type OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { readerParameters } from "../../../src/node/Database.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { fill, type Filled, second, touched } from "../../fixtures/FilledLedger.ts"
import { everything, PostgresLedger } from "../../fixtures/Ledger.ts"
import { anotherPool } from "../../fixtures/Pools.ts"

const million = 1_000_000

type Filters = Partial<OperationQuery>

/** Values of each filter: absent, one that most operations fit, one that few fit, one that none fits. */
const choices: ReadonlyArray<ReadonlyArray<Filters>> = [
  [{}, { states: ["succeeded"] }, { states: ["failed"] }, { states: ["cancelled"] }, { states: [...operationStates] }],
  [{}, { type: "payment" }, { type: "refund" }, { type: "unknown" }],
  [{}, { created_after: second(million - 20) }],
  [{}, { created_before: second(million / 2) }, { created_before: second(20) }],
  [{}, ...[million / 2, million - 20, million * 2].map((n) => ({ updated_after: second(n) }))],
  [{}, { after: { created_at: second(million / 3), id: "ffffffff-ffff-7fff-bfff-ffffffffffff" as never } }]
]

const combinations = choices.reduce<ReadonlyArray<Filters>>(
  (all, values) => all.flatMap((one) => values.map((value) => ({ ...one, ...value }))),
  [{}]
)

/** Lists with these filters, and counts what that looks at. */
const look = Effect.fnUntraced(function*({ identity }: Filled, filters: Filters) {
  const store = yield* OperationStore
  const name = JSON.stringify(filters)
  const before = yield* touched
  const result = yield* Effect.result(store.list(identity, { ...everything, ...filters, page_size: 100 }))
  const after = yield* touched
  assert.strictEqual(after.scans, before.scans, name)
  return { name, result, rows: after.rows - before.rows }
})

/** One connection with the settings of the gateway's, so that what it counts is all there is to count. */
const Reader = Layer.fresh(OperationStore.layer).pipe(
  Layer.provideMerge(anotherPool({
    maxConnections: 1,
    startupParameters: { ...readerParameters, statement_timeout: "0" }
  }))
)

layer(PostgresLedger, { excludeTestServices: true, timeout: "5 minutes" })(
  "A list of one in a million operations",
  (it) => {
    let filled: Filled | undefined

    it.effect(
      "looks at the rows of the page alone when it has no filters, also where there are no statistics",
      () =>
        Effect.gen(function*() {
          filled = yield* fill(1, million)
          yield* Effect.gen(function*() {
            for (
              const filters of combinations.filter((filters) => Object.keys(filters).every((name) => name === "after"))
            ) {
              const { name, rows } = yield* look(filled!, filters)
              assert.strictEqual(rows, 101, name)
            }
          }).pipe(Effect.provide(Reader))
        }),
      300_000
    )

    it.effect(
      `looks at a bounded number of rows with each of ${combinations.length} combinations of filters`,
      () =>
        Effect.gen(function*() {
          yield* SqlClient.SqlClient.use((sql) => sql`ANALYZE operations`)
          yield* Effect.gen(function*() {
            for (const filters of combinations) {
              const { name, result, rows } = yield* look(filled!, filters)
              const bound = filters.updated_after == null ? operationStates.length * 101 : 2 * maxLookedAt + 1
              assert.isAtMost(rows, bound, name)
              if (result._tag === "Success") continue
              // Only where neither order was of any help.
              assert.strictEqual(result.failure._tag, "QueryTooBroad", name)
              assert.strictEqual(rows, bound, name)
            }
          }).pipe(Effect.provide(Reader))
        }),
      300_000
    )
  }
)
