/**
 * Each combination of filters reads a bounded number of rows, so that no list stops other reads. The tests count rows
 * of PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { operationStates } from "../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { fill, type Filled, second } from "../../fixtures/ledger/FilledLedger.ts"
import { everything, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { ReaderConnection, rowsRead } from "../../fixtures/postgres/Plans.ts"

/** Operations of the ledger. The number of rows that a list looks at does not depend on it. */
const size = rounds(20_000, 1_000_000)

type Filters = Partial<OperationQuery>

/** Values of each filter: absent, and one each that most, few and no operations match. */
const choices: ReadonlyArray<ReadonlyArray<Filters>> = [
  [{}, { states: ["succeeded"] }, { states: ["failed"] }, { states: ["cancelled"] }, { states: [...operationStates] }],
  [{}, { type: "payment" }, { type: "refund" }, { type: "unknown" }],
  [{}, { created_after: second(size - 20) }],
  [{}, { created_before: second(size / 2) }, { created_before: second(20) }],
  [{}, { after: { created_at: second(size / 3), id: "ffffffff-ffff-7fff-bfff-ffffffffffff" as never } }]
]

const combinations = choices.reduce<ReadonlyArray<Filters>>(
  (all, values) => all.flatMap((one) => values.map((value) => ({ ...one, ...value }))),
  [{}]
)

/** Lists with these filters, and counts the rows that PostgreSQL reads. */
const look = Effect.fnUntraced(function*({ identity }: Filled, filters: Filters) {
  const store = yield* OperationStore
  const name = JSON.stringify(filters)
  const list = store.list(identity, { ...everything, ...filters, page_size: 100 })
  return { name, rows: yield* rowsRead(list, name) }
})

const Reader = Layer.provideMerge(Layer.fresh(OperationStore.layer), ReaderConnection)

layer(PostgresLedger, { excludeTestServices: true, timeout: "5 minutes" })(
  `A list of one in ${size} operations`,
  (it) => {
    let filled: Filled | undefined

    it.effect(
      "reads only the rows of its page without filters, also without table statistics",
      () =>
        Effect.gen(function*() {
          filled = yield* fill(1, size)
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
      `reads a bounded number of rows with each of ${combinations.length} combinations of filters`,
      () =>
        Effect.gen(function*() {
          yield* SqlClient.SqlClient.use((sql) => sql`ANALYZE operations`)
          yield* Effect.gen(function*() {
            for (const filters of combinations) {
              const { name, rows } = yield* look(filled!, filters)
              assert.isAtMost(rows, operationStates.length * 101, name)
            }
          }).pipe(Effect.provide(Reader))
        }),
      300_000
    )
  }
)
