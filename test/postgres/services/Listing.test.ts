/**
 * A list shows exactly the selected operations of its owner, newest first, in pages. The tests compare PostgreSQL and
 * the memory store with a plain filter, also by property.
 */
import { assert } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import type { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import type { Operation, OperationId, OperationState } from "../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import {
  accept,
  conformance,
  drive,
  everything,
  issue,
  issueAgain,
  newKey,
  newSubject,
  nextMillisecond,
  operationIn,
  pathTo,
  walk
} from "../../fixtures/Ledger.ts"
import { specifiedStates } from "../../fixtures/Specification.ts"

const types = ["payment", "payment.refund", "transfer"]

/** The key of each operation. */
const keys = new Map<OperationId, IdempotencyKey>()

const acceptWithKey = Effect.fnUntraced(function*(grant: GrantIdentity, type: string) {
  const key = newKey()
  const { operation } = yield* accept(grant, { type, key })
  keys.set(operation.id, key)
  return operation
})

/** 42 operations: each state with each type twice, over several milliseconds and many within the same one. */
const populate = Effect.fnUntraced(function*(grant: GrantIdentity) {
  const operations: Array<Operation> = []
  for (let round = 0; round < 2; round++) {
    for (const type of types) {
      yield* nextMillisecond
      operations.push(
        ...(yield* Effect.forEach(
          specifiedStates,
          (state) => Effect.flatMap(acceptWithKey(grant, type), (operation) => drive(operation, pathTo[state])),
          { concurrency: "unbounded" }
        ))
      )
    }
  }
  return operations
})

/** The order of a list: newest first; operations of one millisecond by id, descending. */
const inListOrder = (operations: ReadonlyArray<Operation>): ReadonlyArray<Operation> =>
  operations.toSorted((a, b) => {
    const [x, y] = [a, b].map((operation) => `${DateTime.formatIso(operation.created_at)} ${operation.id}`)
    return x! < y! ? 1 : -1
  })

/** Filters as a test describes them: bounds are a millisecond at or beside a time of the nth operation. */
const Filters = Schema.Struct({
  states: Schema.Array(Schema.Literals(specifiedStates)).check(Schema.isMaxLength(4)),
  type: Schema.NullOr(Schema.Literals([...types, "unknown"])),
  created_after: Schema.NullOr(Schema.Int),
  created_before: Schema.NullOr(Schema.Int),
  key: Schema.NullOr(Schema.Int),
  page_size: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })),
  small: Schema.Boolean
})

type Filters = typeof Filters.Type

/** The time of an operation, or a millisecond before or after it. */
const bound = (seed: number | null, times: ReadonlyArray<DateTime.Utc>): DateTime.Utc | null => {
  if (seed === null) return null
  const n = Math.abs(seed)
  return DateTime.add(times[n % times.length]!, { milliseconds: (n >> 8) % 3 - 1 })
}

const queryOf = (filters: Filters, all: ReadonlyArray<Operation>): OperationQuery => {
  const created = all.map((operation) => operation.created_at)
  return {
    states: filters.states,
    type: filters.type,
    created_after: bound(filters.created_after, created),
    created_before: bound(filters.created_before, created),
    key: filters.key === null ? null : keys.get(all[Math.abs(filters.key) % all.length]!.id)!,
    page_size: filters.small ? filters.page_size % 7 + 1 : filters.page_size,
    after: null
  }
}

/** The model: the operations that the query selects, by a check of every operation. */
const naive = (query: OperationQuery, all: ReadonlyArray<Operation>) => {
  const millis = (time: DateTime.Utc | null, otherwise: number) => time === null ? otherwise : time.epochMilliseconds
  return inListOrder(all.filter((operation) =>
    (query.states.length === 0 || query.states.includes(operation.state))
    && (query.type === null || operation.type === query.type)
    && (query.key === null || keys.get(operation.id) === query.key)
    && operation.created_at.epochMilliseconds > millis(query.created_after, -Infinity)
    && operation.created_at.epochMilliseconds < millis(query.created_before, Infinity)
  ))
}

const assertPages = (query: OperationQuery, pages: ReadonlyArray<ReadonlyArray<Operation>>, all: typeof pages[0]) => {
  const expected = naive(query, all)
  assert.deepStrictEqual(pages.flat(), expected)
  for (const page of pages.slice(0, -1)) assert.lengthOf(page, query.page_size)
  assert.lengthOf(pages, Math.max(1, Math.ceil(expected.length / query.page_size)))
}

conformance("a list of operations", (it) => {
  it.effect("is empty for a grant whose owner has none, on one page", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const { next, operations } = yield* store.list(identity, everything)
      assert.deepStrictEqual([operations, next], [[], null])
    }))

  it.effect("shows every operation, newest first, exactly as a read by its id shows it", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const all = yield* populate(identity)
      const page = yield* store.list(identity, everything)
      assert.deepStrictEqual([page.operations, page.next], [inListOrder(all), null])
      for (const operation of page.operations) {
        assert.deepStrictEqual((yield* store.find(identity, operation.id)).operation, operation)
      }
    }))

  it.effect("shows the newest 100 when there are more, and the rest on the next page", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const accepted = yield* Effect.all(Array.from({ length: 101 }, () => accept(identity)), { concurrency: 10 })
      const all = inListOrder(accepted.map(({ operation }) => operation))
      const first = yield* store.list(identity, everything)
      assert.deepStrictEqual(first.operations, all.slice(0, 100))
      assert.deepStrictEqual(first.next, { created_at: all[99]!.created_at, id: all[99]!.id })
      const second = yield* store.list(identity, { ...everything, after: first.next })
      assert.deepStrictEqual([second.operations, second.next], [all.slice(100), null])
    }))

  it.effect("ends when the last page is full: no empty page follows", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      for (let n = 0; n < 6; n++) yield* accept(identity)
      for (const [page_size, pages] of [[6, 1], [3, 2], [2, 3], [1, 6], [5, 2], [7, 1]] as const) {
        assert.lengthOf(yield* walk(identity, { ...everything, page_size }), pages)
      }
    }))

  it.effect("shows the same operations in pages of any size", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const all = yield* populate(identity)
      for (let page_size = 1; page_size <= all.length + 1; page_size++) {
        const query = { ...everything, page_size }
        assertPages(query, yield* walk(identity, query), all)
      }
    }))

  it.effect("selects by each filter alone", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const all = yield* populate(identity)
      const middle = all[20]!
      const filters: ReadonlyArray<Partial<OperationQuery>> = [
        ...specifiedStates.map((state) => ({ states: [state] })),
        { states: ["accepted", "failed"] },
        { states: [...specifiedStates] },
        ...types.map((type) => ({ type })),
        { type: "unknown" },
        { created_after: middle.created_at },
        { created_before: middle.created_at },
        { key: keys.get(middle.id)! },
        { key: newKey() },
        { created_after: middle.created_at, created_before: middle.created_at }
      ]
      for (const filter of filters) {
        for (const page_size of [4, 100]) {
          const query = { ...everything, ...filter, page_size }
          assertPages(query, yield* walk(identity, query), all)
        }
      }
    }))

  it.effect("has exclusive bounds: an operation created at the bound is not selected", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const operation = yield* operationIn(identity, "submitted")
      const { created_at } = operation
      const earlier = (time: DateTime.Utc) => DateTime.subtract(time, { milliseconds: 1 })
      const later = (time: DateTime.Utc) => DateTime.add(time, { milliseconds: 1 })
      const without = [{ created_after: created_at }, { created_before: created_at }]
      const having = [{ created_after: earlier(created_at) }, { created_before: later(created_at) }]
      const list = (filter: Partial<OperationQuery>) => store.list(identity, { ...everything, ...filter })
      for (const filter of without) assert.deepStrictEqual((yield* list(filter)).operations, [])
      for (const filter of having) assert.deepStrictEqual((yield* list(filter)).operations, [operation])
    }))

  it.effect("shows no operation of other owners, with any filters and from any cursor", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issue()
      const { identity: other } = yield* issueAgain(grant, { subject: newSubject() })
      const foreign = yield* populate(other)
      const mine = yield* operationIn(identity, "failed")
      const { created_at, id } = inListOrder(foreign)[5]!
      const filters: ReadonlyArray<Partial<OperationQuery>> = [
        {},
        { states: ["failed"] },
        { type: "payment" },
        { states: ["failed", "failed", "accepted"], type: "payment" },
        { created_after: foreign[0]!.created_at }
      ]
      for (const filter of filters) {
        assert.deepStrictEqual((yield* walk(identity, { ...everything, ...filter, page_size: 1 })).flat(), [mine])
        // A cursor grants no right: a cursor of another owner's list yields only the caller's own operations.
        assert.isEmpty((yield* walk(identity, { ...everything, ...filter, after: { created_at, id } })).flat())
      }
    }))

  it.effect("continues after an operation that has changed since, and after one that the filter no longer selects", () =>
    Effect.gen(function*() {
      const store = yield* OperationStore
      const { identity } = yield* issue()
      for (let n = 0; n < 6; n++) yield* operationIn(identity, "submitted")
      const query: OperationQuery = { ...everything, states: ["submitted"], page_size: 3 }
      const first = yield* store.list(identity, query)
      yield* drive(first.operations[2]!, ["succeeded"])
      const second = yield* store.list(identity, { ...query, after: first.next })
      assert.lengthOf(second.operations, 3)
      assert.lengthOf(new Set([...first.operations, ...second.operations].map(({ id }) => id)), 6)
    }))

  let shared: { readonly identity: GrantIdentity; readonly all: ReadonlyArray<Operation> } | undefined
  it.effect.prop(
    "selects with all filters together, in pages of any size, the operations that the model selects",
    [Filters],
    ([filters]) =>
      Effect.gen(function*() {
        if (shared === undefined) {
          const { identity } = yield* issue()
          shared = { identity, all: yield* populate(identity) }
        }
        const query = queryOf(filters, shared.all)
        assertPages(query, yield* walk(shared.identity, query), shared.all)
      }),
    { arbitrary: { runs: 300 } }
  )

  it.effect("names no operation twice when the filter names a state twice", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const all = yield* populate(identity)
      const states: ReadonlyArray<OperationState> = ["failed", "accepted", "failed", "failed"]
      for (const page_size of [2, 5, 100]) {
        for (const type of [null, "payment"]) {
          const query = { ...everything, states, type, page_size }
          assertPages(query, yield* walk(identity, query), all)
        }
      }
    }))
})
