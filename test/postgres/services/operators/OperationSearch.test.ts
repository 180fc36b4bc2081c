/**
 * An operator finds operations of any owner, and a list has what its filters match, page by page. The tests run on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { accept, newKey, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, issueAtNewProvider, queued, recording, reference } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

const Search = OperationSearch.layer.pipe(Layer.provideMerge(PostgresLedger))

layer(Search, { excludeTestServices: true })("a search of operators", (it) => {
  it.effect("finds operations of any owner by id, key and reference, the latest change first, and only the exact text", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const search = yield* OperationSearch
      const key = newKey()
      const found = (text: string) => Effect.map(search.find(text), (list) => list.map(({ operation }) => operation.id))
      const first = yield* issueAtNewProvider()
      const second = yield* issueAtNewProvider()
      const { operation: one } = yield* accept(first.identity, { key })
      const { operation: two } = yield* accept(second.identity, { key })
      yield* claimIds(first.grant.provider)
      yield* queue.record(one.id, 2, outcome("submitted"), recording({ reference: reference("their id") }))
      assert.deepStrictEqual(yield* found(key), [one.id, two.id])
      assert.deepStrictEqual(yield* found("their id"), [one.id])
      assert.deepStrictEqual(yield* found(two.id), [two.id])
      for (
        const other of [
          "",
          " ",
          key.slice(1),
          `${key}x`,
          key.toUpperCase(),
          "their",
          "%",
          "\0",
          "\uD800",
          "x".repeat(5000)
        ]
      ) {
        assert.deepStrictEqual(yield* found(other), [], JSON.stringify(other))
      }
    }))

  it.effect("returns an operation once, also if its id is the key of another one, and 20 at most", () =>
    Effect.gen(function*() {
      const search = yield* OperationSearch
      const { identity } = yield* issueAtNewProvider()
      const { operation: one } = yield* accept(identity)
      const { operation: two } = yield* accept(identity, { key: one.id as never })
      const both = yield* search.find(one.id)
      assert.deepStrictEqual(both.map(({ operation }) => operation.id).toSorted(), [one.id, two.id].toSorted())
      const key = newKey()
      for (let n = 0; n < 22; n++) yield* accept((yield* issueAtNewProvider()).identity, { key })
      assert.lengthOf(yield* search.find(key), 20)
    }))

  it.effect("refuses a page that is malformed, or of another list", () =>
    Effect.gen(function*() {
      const search = yield* OperationSearch
      const { identity } = yield* issueAtNewProvider()
      for (let n = 0; n < 3; n++) yield* accept(identity)
      const list = { order: "newest", limit: 1 } as const
      const { next } = yield* search.list(list)
      assert.lengthOf((yield* search.list({ ...list, after: next! })).operations, 1)
      for (
        const wrong of [
          { ...list, after: "x" },
          { ...list, after: "" },
          { ...list, order: "oldest", after: next! } as const,
          { ...list, queue: "held", after: next! } as const
        ]
      ) assert.strictEqual((yield* Effect.flip(search.list(wrong)))._tag, "UnknownPage")
      assert.deepStrictEqual(yield* search.list({ ...list, queue: "held", states: ["failed"] }), {
        operations: [],
        next: null
      })
    }))

  it.effect("lists an operation in the queue that the workers see it in", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const search = yield* OperationSearch
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const { operation: held } = yield* accept(issued.identity)
      yield* queue.hold(held.id)
      const indeterminate = yield* queued(issued, "indeterminate")
      yield* accept(issued.identity)
      const listed = (name: "held" | "indeterminate" | "under_review" | "waiting") =>
        Effect.map(
          search.list({ queue: name, provider, order: "oldest", limit: 10 }),
          ({ operations }) => operations.map(({ operation }) => operation.id)
        )
      assert.deepStrictEqual(yield* listed("held"), [held.id])
      assert.deepStrictEqual(yield* listed("indeterminate"), [indeterminate.id])
      assert.deepStrictEqual(yield* listed("under_review"), [])
      assert.deepStrictEqual(yield* listed("waiting"), [])
      yield* OperationLedger.use((ledger) => ledger.review(held.id, true))
      assert.deepStrictEqual(yield* listed("under_review"), [held.id])
    }))

  it.effect("reads no payload", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const search = yield* OperationSearch
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`ALTER TABLE operation_payloads RENAME TO hidden`
        yield* search.detail(id)
        yield* search.find(id)
        yield* search.list({ order: "newest", limit: 10 })
        yield* sql`ALTER TABLE hidden RENAME TO operation_payloads`
      }))
    }))
})
