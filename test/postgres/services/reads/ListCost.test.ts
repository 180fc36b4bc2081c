/**
 * The cost of a list does not depend on how many operations its owner has. The tests count the rows and scans of
 * PostgreSQL for each kind of filter.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import type { OperationQuery } from "../../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { fill, second } from "../../../fixtures/ledger/FilledLedger.ts"
import { everything, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { mostRowsRead } from "../../../fixtures/postgres/Plans.ts"
import { anotherPool } from "../../../fixtures/postgres/Pools.ts"
import { once } from "../../../fixtures/postgres/RawSql.ts"

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
  const filled = once(Effect.gen(function*() {
    const owners = { few: yield* fill(1, small), many: yield* fill(2, large) }
    yield* SqlClient.SqlClient.use((sql) => sql`ANALYZE operations`)
    return owners
  }))

  /** On one connection: its counters include every statement of the test. */
  const cost = <A, E>(read: Effect.Effect<A, E, OperationStore>) =>
    Effect.provide(
      mostRowsRead(read),
      Layer.fresh(OperationStore.layer).pipe(Layer.provideMerge(anotherPool({ maxConnections: 1 })))
    )

  const list = (identity: GrantIdentity, query: Partial<OperationQuery>) =>
    OperationStore.use((store) => store.list(identity, { ...everything, ...query }))

  for (const [name, filter] of Object.entries(queries(large))) {
    for (const page_size of [10, 100]) {
      it.effect(`does not depend on how many operations an owner has: ${name}, ${page_size} a page`, () =>
        Effect.gen(function*() {
          const { many } = yield* filled
          // A type alone queries each of seven states; one row more than the page shows that there is a next page.
          assert.isAtMost(yield* cost(list(many.identity, { ...filter, page_size })), 7 * (page_size + 1))
        }))
    }
  }

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
