/**
 * The pages of a list of operators together have each matching operation once, in the order of the list. The tests compare
 * them with the rows of the table, on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import * as fc from "fast-check"
import type { ClientId, ProviderName, ResourceOwner } from "../../../src/domain/Grant.ts"
import { type OperationListQuery, queueNames } from "../../../src/domain/operators/OperatorView.ts"
import { OperationSearch } from "../../../src/services/operators/OperationSearch.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { forAll } from "../../fixtures/forAll.ts"
import { PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { allSearched, fillSearched, isListed, type Searched, walkList } from "../../fixtures/ledger/SearchedLedger.ts"
import { specifiedStates } from "../../fixtures/Specification.ts"

const Search = OperationSearch.layer.pipe(Layer.provideMerge(PostgresLedger))

/** A value in so many of ten cases. */
const sometimes = <A>(arbitrary: fc.Arbitrary<A>, tenths: number) =>
  fc.oneof({ weight: tenths, arbitrary }, { weight: 10 - tenths, arbitrary: fc.constant(undefined) })

/** Filters with values of the table, and limits from one row to more than the table has. */
const queries = (rows: ReadonlyArray<Searched>) => {
  const values = <Name extends keyof Searched>(name: Name) =>
    fc.constantFrom(...new Set(rows.map((row) => row[name]).filter((value) => value !== null)))
  return fc.record({
    order: fc.constantFrom("oldest", "newest"),
    limit: fc.constantFrom(7, 50, 400, 1000),
    queue: sometimes(fc.constantFrom(...queueNames), 5),
    states: sometimes(fc.uniqueArray(fc.constantFrom(...specifiedStates), { maxLength: 4 }), 5),
    provider: sometimes(values("provider") as fc.Arbitrary<ProviderName>, 3),
    client_id: sometimes(values("client_id") as fc.Arbitrary<ClientId>, 2),
    resource_owner: sometimes(values("resource_owner") as fc.Arbitrary<ResourceOwner>, 2),
    idempotency_key: sometimes(values("idempotency_key"), 1),
    failure_code: sometimes(values("failure_code") as fc.Arbitrary<string>, 1),
    reference: sometimes(values("reference") as fc.Arbitrary<string>, 1),
    // In whole days, as the rows are, so that the time of the test makes no difference.
    unchanged_for: sometimes(fc.nat({ max: 70 }).map(Duration.days), 3)
  }).map((query) =>
    // The cast: without the undefined members it has the form of a query, which `fromEntries` cannot tell.
    Object.fromEntries(
      Object.entries(query).filter(([, value]) => value !== undefined)
    ) as unknown as OperationListQuery
  )
}

const assertPages = Effect.fnUntraced(function*(rows: ReadonlyArray<Searched>, query: OperationListQuery) {
  const { listed } = yield* walkList(query)
  const expected = rows.filter(isListed(query)).map(({ id }) => id)
  const ids = listed.map(({ operation }) => operation.id)
  assert.strictEqual(new Set(ids).size, ids.length, "each once")
  assert.deepStrictEqual(ids.toSorted(), expected.toSorted())
  const isByAge = query.idempotency_key === undefined &&
    (query.reference !== undefined || query.resource_owner === undefined
        && (query.queue !== undefined || query.states !== undefined && query.states.length > 0
            && query.states.every((state) => !["succeeded", "failed", "cancelled"].includes(state))))
  if (!isByAge) return
  const keys = listed.map(({ operation }) => `${operation.updated_at.epochMilliseconds} ${operation.id}`)
  const sorted = keys.toSorted()
  assert.deepStrictEqual(keys, query.order === "oldest" ? sorted : sorted.toReversed())
})

layer(Search, { excludeTestServices: true })("the pages of a list", (it) => {
  it.effect(
    "have each matching operation once, in order, for any filter, order and limit",
    () =>
      Effect.gen(function*() {
        yield* fillSearched(60)
        const rows = yield* allSearched
        yield* forAll(queries(rows), rounds(12, 400), (query) => assertPages(rows, query))
      })
  )
})
