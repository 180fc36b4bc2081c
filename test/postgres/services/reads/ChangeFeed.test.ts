/** The change feed: each change at least once, in an order that never skips. Both stores keep the same rules. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { ChangeQuery, ChangeToken } from "../../../../src/domain/ChangeFeed.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { feedReader, revisions } from "../../../fixtures/ledger/Changes.ts"
import {
  accept,
  conformance,
  drive,
  issue,
  issueAgain,
  newClient,
  newOwner,
  newSubject,
  operationIn
} from "../../../fixtures/ledger/Ledger.ts"

const anything: ChangeQuery = { states: [], type: null, page_size: 100, after: null }

conformance("The change feed", (it) => {
  it.effect("starts at the first operation, and returns each in its current state", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const first = yield* operationIn(identity, "submitted")
      const second = yield* operationIn(identity, "accepted")
      const reader = feedReader(identity)
      assert.deepStrictEqual(revisions(yield* reader.drain()), revisions([first, second]))
      assert.isEmpty(yield* reader.drain())
    }))

  it.effect("returns what changed since the token: acceptances, transitions and reviews", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      const { operation: moved } = yield* accept(identity)
      const { operation: reviewed } = yield* accept(identity)
      yield* accept(identity)
      const reader = feedReader(identity)
      yield* reader.drain()
      yield* ledger.review(reviewed.id, true)
      const submitting = yield* drive(moved, ["submitting"])
      const { operation: created } = yield* accept(identity)
      const operations = yield* reader.drain()
      assert.deepStrictEqual(revisions(operations), revisions([reviewed, submitting, created]))
      assert.isTrue(operations[0]!.under_review)
    }))

  it.effect("returns pages of the wanted size, and says whether more follow", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const accepted = yield* Effect.forEach([1, 2, 3, 4, 5], () => accept(identity))
      const reader = feedReader(identity)
      const pages = yield* Effect.forEach([1, 2, 3], () => reader.page(2))
      const ids = accepted.map(({ operation }) => operation.id)
      assert.deepStrictEqual(
        pages.map(({ has_more, operations }) => [operations.map(({ id }) => id), has_more]),
        [[ids.slice(0, 2), true], [ids.slice(2, 4), true], [ids.slice(4), false]]
      )
    }))

  it.effect("filters by the current state and by type", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      yield* operationIn(identity, "accepted")
      const settled = yield* operationIn(identity, "succeeded")
      const { operation: transfer } = yield* accept(identity, { type: "transfer" })
      const shown = (filters: Parameters<typeof feedReader>[1]) =>
        Effect.map(feedReader(identity, filters).drain(), revisions)
      assert.deepStrictEqual(yield* shown({ states: ["succeeded"] }), revisions([settled]))
      assert.deepStrictEqual(yield* shown({ type: "transfer" }), revisions([transfer]))
      assert.deepStrictEqual(yield* shown({ type: "transfer", states: ["succeeded"] }), [])
    }))

  it.effect("shows a grant the operations of its owner, subject and client alone", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issue()
      const { operation } = yield* accept(identity)
      const own = { client_id: grant.client_id, subject: grant.subject, resource_owner: grant.resource_owner }
      const others = [{ client_id: newClient() }, { subject: newSubject() }, { resource_owner: newOwner() }]
      for (const other of others) {
        const { identity: stranger } = yield* issue({ ...own, ...other })
        assert.isEmpty(yield* feedReader(stranger).drain())
      }
      const { identity: again } = yield* issueAgain(grant)
      assert.deepStrictEqual(revisions(yield* feedReader(again).drain()), revisions([operation]))
    }))

  it.effect("refuses the token of another reader, of other filters, and a forged one", () =>
    Effect.gen(function*() {
      const feed = yield* OperationFeed
      const { grant, identity } = yield* issue()
      const { next } = yield* feed.since(identity, anything)
      const { identity: other } = yield* issue({ client_id: grant.client_id })
      const { identity: ofOther } = yield* issue({ client_id: grant.client_id, subject: grant.subject })
      const refused: ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }>> = [
        feed.since(other, { ...anything, after: next }),
        feed.since(ofOther, { ...anything, after: next }),
        feed.since(identity, { ...anything, type: "payment", after: next }),
        feed.since(identity, { ...anything, states: ["failed"], after: next }),
        feed.since(identity, { ...anything, after: `${next.slice(0, -2)}AA` as ChangeToken }),
        feed.since(identity, { ...anything, after: yield* feed.now }),
        feed.sinceInLedger(next, 10)
      ]
      for (const call of refused) assert.strictEqual((yield* Effect.flip(call))._tag, "InvalidChangeToken")
    }))

  it.effect("of the whole ledger has the changes of every owner, and can start now", () =>
    Effect.gen(function*() {
      const feed = yield* OperationFeed
      const now = yield* feed.now
      const { grant, identity } = yield* issue()
      const { operation } = yield* accept(identity)
      const { grant: otherGrant, identity: other } = yield* issue()
      const { operation: second } = yield* accept(other)
      const { changes, has_more } = yield* feed.sinceInLedger(now, 10)
      assert.isFalse(has_more)
      const { client_id, resource_owner, subject } = grant
      assert.deepStrictEqual(changes, [
        { operation, client_id, resource_owner, subject },
        {
          operation: second,
          client_id: otherGrant.client_id,
          resource_owner: otherGrant.resource_owner,
          subject: otherGrant.subject
        }
      ])
    }))
})
