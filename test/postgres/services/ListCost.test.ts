/**
 * The cost of a list does not depend on how many operations its owner has. The tests count the rows and scans of
 * PostgreSQL for each kind of filter.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { fill, type Filled, second, touched } from "../../fixtures/FilledLedger.ts"
import { everything, PostgresLedger } from "../../fixtures/Ledger.ts"
import { anotherPool } from "../../fixtures/Pools.ts"

const small = 100
const large = 5000

/** Queries with each kind of filter, for an owner with `count` operations. */
const queries = (count: number): Readonly<Record<string, Partial<OperationQuery>>> => ({
  "the first page": {},
  "a page in the middle": {
    after: { created_at: second(count / 2), id: "ffffffff-ffff-7fff-bfff-ffffffffffff" as never }
  },
  "a state that most have": { states: ["succeeded"] },
  "a state that few have": { states: ["failed"] },
  "a state that none has": { states: ["cancelled"] },
  "several states": { states: ["failed", "indeterminate", "submitted"] },
  "a type that most have": { type: "payment" },
  "a type that few have": { type: "transfer" },
  "a type that was used long ago": { type: "refund" },
  "a state of a type that was used long ago": { type: "refund", states: ["succeeded"] },
  "a type that none has": { type: "unknown" },
  "a state of a type": { type: "transfer", states: ["failed"] },
  "created before most others": { created_before: second(20) },
  "created lately": { created_after: second(count - 20) },
  "created at any time": { created_after: second(0) }
})

layer(PostgresLedger, { excludeTestServices: true })("the cost of a list", (it) => {
  let owners: { readonly few: Filled; readonly many: Filled } | undefined
  const filled = Effect.gen(function*() {
    if (owners !== undefined) return owners
    const sql = yield* SqlClient.SqlClient
    owners = { few: yield* fill(1, small), many: yield* fill(2, large) }
    yield* sql`ANALYZE operations`
    return owners
  })

  /** One connection: its counters include every statement of the test. */
  const alone = Layer.fresh(OperationStore.layer).pipe(
    Layer.provideMerge(anotherPool({ maxConnections: 1 }))
  )

  for (const [name, filter] of Object.entries(queries(large))) {
    for (const page_size of [10, 100]) {
      it.effect(`does not depend on how many operations an owner has: ${name}, ${page_size} a page`, () =>
        Effect.gen(function*() {
          const { many } = yield* filled
          yield* Effect.gen(function*() {
            const store = yield* OperationStore
            const before = yield* touched
            // PostgreSQL plans the first five executions of a prepared statement, and may then keep one plan for all values.
            const runs = 8
            for (let run = 0; run < runs; run++) {
              const page = yield* store.list(many.identity, { ...everything, ...filter, page_size })
              assert.isAtMost(page.operations.length, page_size)
            }
            const after = yield* touched
            // A type alone queries each of seven states; one row more than the page shows that there is a next page.
            assert.isAtMost((after.rows - before.rows) / runs, 7 * (page_size + 1))
            assert.strictEqual(after.scans, before.scans, "full scans of the table")
          }).pipe(Effect.provide(alone))
        }))
    }
  }

  it.effect("without filters is the cost of one page, for few operations and for many", () =>
    Effect.gen(function*() {
      const { few, many } = yield* filled
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        for (const { identity } of [few, many]) {
          const before = yield* touched
          yield* store.list(identity, { ...everything, page_size: 50 })
          assert.strictEqual((yield* touched).rows - before.rows, 51)
        }
      }).pipe(Effect.provide(alone))
    }))

  it.effect("to find one operation is one row", () =>
    Effect.gen(function*() {
      const { many } = yield* filled
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        const [operation] = (yield* store.list(many.identity, everything)).operations
        const before = yield* touched
        for (let run = 0; run < 8; run++) yield* store.find(many.identity, operation!.id)
        assert.strictEqual((yield* touched).rows - before.rows, 8)
      }).pipe(Effect.provide(alone))
    }))
})
