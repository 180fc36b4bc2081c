/**
 * A list shows exactly the selected operations of its owner, newest first, in pages, as values and as JSON text. A property
 * compares PostgreSQL and the memory store with a plain filter.
 */
import { assert } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import type { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import type { Operation, OperationId } from "../../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../../src/domain/OperationQuery.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
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
} from "../../../fixtures/ledger/Ledger.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

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
  return DateTime.add(times[Math.floor(n / 3) % times.length]!, { milliseconds: n % 3 - 1 })
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

/** Reads all pages, and compares them with the model: values, sizes and number of the pages. */
const assertPages = Effect.fnUntraced(
  function*(grant: GrantIdentity, query: OperationQuery, all: ReadonlyArray<Operation>) {
    const store = yield* OperationStore
    const expected = naive(query, all)
    let { after } = query
    for (let start = 0; start === 0 || start < expected.length; start += query.page_size) {
      const { next, operations } = yield* store.list(grant, { ...query, after })
      assert.deepStrictEqual(operations, expected.slice(start, start + query.page_size))
      after = next
    }
    assert.isNull(after, "no empty page follows")
  }
)

conformance("a list of operations", (it) => {
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
        yield* assertPages(shared.identity, query, shared.all)
      }),
    { arbitrary: { runs: 300 } }
  )
})
