/**
 * A page of a list of operators costs the rows that it looks at, not those of the ledger. The tests read the execution plans of
 * PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { ClientId, ProviderName, ResourceOwner } from "../../../src/domain/Grant.ts"
import { type OperationFilter, queueNames } from "../../../src/domain/operators/OperatorView.ts"
import { OperationSearch } from "../../../src/services/operators/OperationSearch.ts"
import { fill } from "../../fixtures/ledger/FilledLedger.ts"
import { accept, issue, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { allSearched, fillSearched, type Searched, walkList } from "../../fixtures/ledger/SearchedLedger.ts"
import { boundedScans, type PlanMode, planModes, recorded } from "../../fixtures/postgres/Plans.ts"
import { once } from "../../fixtures/postgres/RawSql.ts"
import { Statements } from "../../fixtures/postgres/Statements.ts"

/** Rows that the first statement of a page may look at. */
const firstLook = 1001

/** One section more or less, and the search for the sections themselves. */
const sections = 200

const indexes: Readonly<Record<string, string>> = {
  "a state": "operations_unsettled",
  "indeterminate": "operations_unsettled",
  "held": "operations_unsettled",
  "a state of a provider": "operations_unsettled",
  "unsettled states, long unchanged": "operations_unsettled",
  "under_review": "operations_under_review",
  "under review of a provider": "operations_under_review",
  "waiting": "operations_waiting",
  "reversed": "operations_pkey",
  "approval": "operations_unsettled",
  "failed": "operations_failed",
  "failed with a code": "operations_failed",
  "nothing": "operations_by_change",
  "a client": "operations_by_change",
  "a settled state": "operations_by_change",
  "an owner": "operations_by_owner_change",
  "an owner and a client": "operations_by_owner_change",
  "a key": "operations_idempotency_key_client_id_subject_key",
  "a reference": "operations_by_reference",
  "a payee": "operations_by_payee"
}

const filters = (row: Searched): Readonly<Record<string, OperationFilter>> => {
  const provider = ProviderName.make(row.provider)
  const client_id = ClientId.make(row.client_id)
  const resource_owner = ResourceOwner.make(row.resource_owner)
  return {
    "a state": { states: ["accepted"] },
    "a state of a provider": { states: ["indeterminate"], provider },
    "unsettled states, long unchanged": {
      states: ["submitted", "accepted", "submitting"],
      unchanged_for: Duration.days(9000)
    },
    ...Object.fromEntries(queueNames.map((queue) => [queue, { queue }])),
    "under review of a provider": { queue: "under_review", provider },
    "failed with a code": { queue: "failed", provider, failure_code: "code_1" },
    "nothing": {},
    "a client": { client_id },
    "a settled state": { states: ["failed"] },
    "an owner": { resource_owner },
    "an owner and a client": { resource_owner, client_id },
    "a key": { idempotency_key: row.idempotency_key },
    "a reference": { reference: "reference-1" },
    "a payee": { payee: "Landlord" }
  }
}

const Search = OperationSearch.layer.pipe(Layer.provideMerge(PostgresLedger))

layer(Search, { excludeTestServices: true })("the cost of a page of a list", (it) => {
  const filled = once(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* fill(1, 20_000)
    yield* fillSearched(200)
    yield* sql`VACUUM ANALYZE operations`.unprepared
    return (yield* allSearched).find(({ reference }) => reference === "reference-1")!
  }))

  /** Asserts that the statements of the first and of a further page read few rows, all by an index. */
  const assertCheap = Effect.fnUntraced(
    function*(name: string, filter: OperationFilter, index: string, mode: PlanMode) {
      const statements = yield* Statements
      const search = yield* OperationSearch
      for (const order of ["oldest", "newest"] as const) {
        const before = statements.length
        const first = yield* search.list({ ...filter, order, limit: 20 })
        if (first.next !== null) yield* search.list({ ...filter, order, limit: 20, after: first.next })
        for (const statement of new Set([statements[before]!, statements.at(-1)!])) {
          const rows = Math.max(...statement.text.match(/LIMIT (\d+)/g)!.map((limit) => Number(limit.slice(6)))) +
            sections
          const scans = yield* boundedScans(statement, mode, { index, rows, nodes: rows }, `${name}, ${order}`)
          for (const scan of scans) assert.notMatch(scan["Node Type"], /Bitmap/, `${name}, ${order}`)
        }
      }
    }
  )

  for (const mode of planModes) {
    it.effect(`is bounded, by the index of its filter (${mode})`, () =>
      Effect.gen(function*() {
        const all = filters(yield* filled)
        assert.sameMembers(Object.keys(all), Object.keys(indexes))
        for (const [name, filter] of Object.entries(all)) yield* assertCheap(name, filter, indexes[name]!, mode)
      }).pipe(Effect.provide(recorded(OperationSearch.layer))))

    it.effect(`of a search and of one operation is that of the rows found (${mode})`, () =>
      Effect.gen(function*() {
        const row = yield* filled
        const search = yield* OperationSearch
        for (const text of [row.id, row.idempotency_key, "reference-1"]) {
          assert.isNotEmpty(yield* search.find(text))
        }
        yield* search.detail(row.id as never)
        for (const statement of new Set(yield* Statements)) {
          yield* boundedScans(statement, mode, { rows: firstLook, nodes: firstLook }, statement.text)
        }
      }).pipe(Effect.provide(recorded(OperationSearch.layer))))
  }

  it.effect("is one statement if the first has as many as the page, and further rows", () =>
    Effect.gen(function*() {
      yield* filled
      const { grant: { client_id }, identity } = yield* issue()
      yield* accept(identity)
      yield* accept(identity)
      const statements = yield* Statements
      const search = yield* OperationSearch
      const before = statements.length
      const { next, operations } = yield* search.list({ states: ["accepted"], client_id, order: "newest", limit: 2 })
      assert.lengthOf(operations, 2)
      assert.isNotNull(next)
      assert.strictEqual(statements.length - before, 1)
    }).pipe(Effect.provide(recorded(OperationSearch.layer))))

  it.effect("looks at 10,000 rows, and is short or empty if they do not match; the pages together have all", () =>
    Effect.gen(function*() {
      yield* filled
      const search = yield* OperationSearch
      const filter = { states: ["failed"], failure_code: "x", order: "oldest", limit: 1000 } as const
      const first = yield* search.list(filter)
      assert.isBelow(first.operations.length, 200)
      assert.isNotNull(first.next)
      const { listed, pages } = yield* walkList(filter)
      assert.lengthOf(listed, 200)
      assert.strictEqual(pages, Math.ceil((20_000 + 3 * 2 * 12 * 200) / 10_000))
    }))
})
