/**
 * The cost of a list does not depend on how many operations its owner has, with any combination of filters, so that no list stops
 * other reads. The tests count the rows and scans of PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { operationStates } from "../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { fill, second } from "../../fixtures/ledger/FilledLedger.ts"
import { everything, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { mostRowsRead, ReaderConnection, rowsRead } from "../../fixtures/postgres/Plans.ts"
import { anotherPool } from "../../fixtures/postgres/Pools.ts"
import { once } from "../../fixtures/postgres/RawSql.ts"

const small = 100
const large = rounds(20_000, 1_000_000)

/** Values of each filter: absent, and one each that most, few and no operations match. */
const choices: ReadonlyArray<ReadonlyArray<Partial<OperationQuery>>> = [
  [{}, { states: ["succeeded"] }, { states: ["failed"] }, { states: ["cancelled"] }, { states: [...operationStates] }],
  [{}, { type: "payment" }, { type: "refund" }, { type: "unknown" }],
  [{}, { created_after: second(large - 20) }],
  [{}, { created_before: second(large / 2) }, { created_before: second(20) }],
  [{}, { after: { created_at: second(large / 3), id: "ffffffff-ffff-7fff-bfff-ffffffffffff" as never } }]
]

const combinations = choices.reduce<ReadonlyArray<Partial<OperationQuery>>>(
  (all, values) => all.flatMap((one) => values.map((value) => ({ ...one, ...value }))),
  [{}]
)

layer(PostgresLedger, { excludeTestServices: true, timeout: "5 minutes" })("the cost of a list", (it) => {
  const unanalyzed = once(Effect.gen(function*() {
    return { few: yield* fill(1, small), many: yield* fill(2, large) }
  }))
  const filled = once(Effect.tap(unanalyzed, SqlClient.SqlClient.use((sql) => sql`ANALYZE operations`)))

  /** On one connection: its counters include every statement of the test. */
  const cost = <A, E>(read: Effect.Effect<A, E, OperationStore>) =>
    Effect.provide(
      mostRowsRead(read),
      Layer.fresh(OperationStore.layer).pipe(Layer.provideMerge(anotherPool({ maxConnections: 1 })))
    )

  const list = (identity: GrantIdentity, query: Partial<OperationQuery>) =>
    OperationStore.use((store) => store.list(identity, { ...everything, ...query }))

  /** As readers list: each combination of filters that matches, and the rows that it reads. */
  const look = (identity: GrantIdentity, isWanted: (filters: object) => boolean) =>
    Effect.forEach(combinations.filter(isWanted), (filters) => {
      const name = JSON.stringify(filters)
      return Effect.map(rowsRead(list(identity, { ...filters, page_size: 100 }), name), (rows) => ({ name, rows }))
    }).pipe(Effect.provide(Layer.provideMerge(Layer.fresh(OperationStore.layer), ReaderConnection)))

  // First: statistics stay.
  it.effect("is that of its page without filters, also without table statistics", () =>
    Effect.gen(function*() {
      const { many } = yield* unanalyzed
      const looks = yield* look(many.identity, (filters) => Object.keys(filters).every((name) => name === "after"))
      for (const { name, rows } of looks) assert.strictEqual(rows, 101, name)
    }), 300_000)

  it.effect(`is bounded with each of ${combinations.length} combinations of filters`, () =>
    Effect.gen(function*() {
      const { many } = yield* filled
      for (const { name, rows } of yield* look(many.identity, () => true)) {
        assert.isAtMost(rows, operationStates.length * 101, name)
      }
    }))

  it.effect("without filters is the cost of one page, for few operations and for many", () =>
    Effect.gen(function*() {
      const { few, many } = yield* filled
      for (const { identity } of [few, many]) {
        assert.strictEqual(yield* cost(list(identity, { page_size: 50 })), 51)
      }
    }))

  it.effect("to find one operation is one row", () =>
    Effect.gen(function*() {
      const { many } = yield* filled
      const [operation] = (yield* list(many.identity, {})).operations
      assert.strictEqual(yield* cost(OperationStore.use((store) => store.find(many.identity, operation!.id))), 1)
    }))
})
