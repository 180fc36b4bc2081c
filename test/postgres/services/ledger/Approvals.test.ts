/**
 * An operation that needs an approval is sent only after a decision about it: of a person, in time, once, about the same request. Both
 * ledgers give the same answers.
 */
import { assert, it } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import * as fc from "fast-check"
import type { Approval, Decision, PendingApprovals } from "../../../../src/domain/Approval.ts"
import type { GrantIdentity, ProviderName, ResourceOwner } from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { Approvals } from "../../../../src/services/Approvals.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { findDecisionRefusal } from "../../../../src/services/rules/approvals.ts"
import type { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { accept, type Asked, decide, details, paid, request, waits } from "../../../fixtures/ledger/ApprovedPayments.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { feedReader } from "../../../fixtures/ledger/Changes.ts"
import { forgeDecisions, reasonOf } from "../../../fixtures/ledger/ForgedDecisions.ts"
import { conformance, unknownId } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, claimTerms, issueAtNewProvider, readTerms, takeIds } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

it("A decision at the very end of its approval is late, and a millisecond before is not", () => {
  const end = 86_400_000
  const refusedAt = (now: number) =>
    findDecisionRefusal(
      { operation_id: unknownId, request_digest: "digest", decider: { as: "operator", name: "Ada" } } as Decision,
      {
        state: "pending",
        request_digest: "digest",
        client_id: "agent",
        expires_at: DateTime.makeUnsafe(end),
        now: DateTime.makeUnsafe(now),
        is_unsent: true
      } as Parameters<typeof findDecisionRefusal>[1]
    )?.reason
  assert.deepStrictEqual([end - 1, end].map(refusedAt), [undefined, "late"])
})

conformance("an approval", (it) => {
  it.effect("is needed above the line, in a currency without a line, and for a payee that received nothing yet", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      yield* paid(identity, { payee: "A" })
      yield* paid(identity, { payee: "failed" }, "failed")
      yield* paid(identity, { payee: "unkept", kept: false })
      yield* paid(identity, { payee: "open" }, "submitted")
      const returned = yield* paid(identity, { payee: "returned" })
      yield* Effect.flatMap(Queue, ({ recordReversal }) => recordReversal(returned.id, { saw: "return" }))
      const { identity: other } = yield* issueAtNewProvider({ authorization_details: details })
      const table: ReadonlyArray<readonly [Asked, boolean, GrantIdentity?]> = [
        [{ amount: "50" }, false],
        [{ amount: "50.01" }, true],
        [{ amount: "1", currency: "USD" }, true],
        [{ amount: "0" }, false],
        [{ type: "fee", amount: "100", payee: "fees" }, false],
        [{ payee: "a" }, true],
        [{ payee: "A " }, true],
        [{ payee: "failed" }, true],
        [{ payee: "unkept" }, true],
        [{ payee: "open" }, true],
        [{ payee: "returned" }, true],
        [{ payee: "A" }, true, other],
        // A credential adds approvals, and takes none away.
        [{ amount: "20" }, true, {
          ...identity,
          authorization_details: [{
            type: "financial_operations",
            approval: { above: [{ currency: "EUR", amount: "0" }] }
          }]
        }],
        [{ amount: "60" }, true, { ...identity, authorization_details: [{ type: "financial_operations" }] }]
      ]
      for (const [asked, expected, by = identity] of table) {
        assert.strictEqual(yield* waits(by, asked), expected, JSON.stringify(asked))
      }
    }))

  it.effect("shows what the operation moves; without one the operation is held, under review, and no worker claims it", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const operation = yield* accept(identity, { amount: "70.00", payee: "DE02" })
      assert.deepInclude(operation, { state: "accepted", under_review: true, revision: 1 })
      const [approval, ...rest] = yield* Approvals.use(({ pending }) =>
        pending({ resource_owner: grant.resource_owner })
      )
      assert.lengthOf(rest, 0)
      assert.deepInclude(approval, {
        operation_id: operation.id,
        state: "pending",
        terms: { amount: "70.00", currency: "EUR", payee: "DE02" },
        decided_at: null
      })
      assert.strictEqual(
        approval!.expires_at.epochMilliseconds - operation.created_at.epochMilliseconds,
        Duration.toMillis("24 hours")
      )
      const feed = feedReader(identity)
      assert.deepStrictEqual(yield* feed.drain(), [operation])
      yield* Backstage.use(({ pass }) => pass(Duration.hours(23)))
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      yield* decide(operation.id, { decider: { as: "operator", name: "anna", via: "console" }, reason: "known" })
      const [told, ...more] = yield* feed.drain()
      assert.lengthOf(more, 0)
      assert.deepInclude(told, { id: operation.id, state: "accepted", under_review: false })
      assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
      const ledger = yield* OperationLedger
      assert.isFalse((yield* ledger.show(operation.id)).under_review)
      const { decided_at, ...recorded } = (yield* ledger.history(operation.id)).at(-1)!.evidence as Record<
        string,
        unknown
      >
      assert.deepStrictEqual(recorded, {
        by: "approval",
        decision: "approved",
        decided_as: "operator",
        decider: "anna",
        reason: "known"
      })
      assert.match(String(decided_at), /^\d{4}-.*Z$/)
      assert.isEmpty(yield* Approvals.use(({ pending }) => pending({ resource_owner: grant.resource_owner })))
    }))

  it.effect("that is awaited is listed, the first to end in front, in pages, of one owner or all; each owner is listed once", () =>
    Effect.gen(function*() {
      const { owners, pending } = yield* Approvals
      const grants = yield* Effect.forEach(
        [3, 1, 5],
        Effect.fnUntraced(function*(count) {
          const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
          const requests = Array.from({ length: count }, () => request({ payee: "new" }))
          yield* OperationLedger.use((ledger) => ledger.acceptAll(identity, requests))
          return { owner: grant.resource_owner, count }
        })
      )
      /** All pages of two, and more where they do not end. */
      const pagesOf = Effect.fnUntraced(
        function*<A, E>(pageAfter: (last: A | undefined) => Effect.Effect<ReadonlyArray<A>, E>) {
          const all: Array<A> = []
          for (let pages = 0; pages < 20 && all.length === 2 * pages; pages++) all.push(...yield* pageAfter(all.at(-1)))
          return all
        }
      )
      const approvalsOf = (which: PendingApprovals = {}) =>
        pagesOf<Approval, StoreUnavailable>((after) => pending({ limit: 2, ...which, ...after && { after } }))
      const all = yield* approvalsOf()
      assert.deepStrictEqual(all, yield* pending())
      for (const { count, owner } of grants) {
        const own = yield* approvalsOf({ resource_owner: owner })
        assert.lengthOf(own, count)
        assert.deepStrictEqual(own, all.filter(({ resource_owner }) => resource_owner === owner))
      }
      const listed = yield* pagesOf<ResourceOwner, StoreUnavailable>((after) =>
        owners({ limit: 2, ...after && { after } })
      )
      assert.deepStrictEqual(listed, yield* owners())
      assert.lengthOf(listed, new Set(listed).size)
      assert.sameMembers(listed, [...new Set(all.map(({ resource_owner }) => resource_owner))])
    }))

  it.effect("that is awaited keeps the operation under review: an operator cannot end it", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* accept(identity, { amount: "70" })
      const ledger = yield* OperationLedger
      const refused = yield* Effect.flip(ledger.review(id, false))
      assert.deepInclude(refused, { _tag: "StillHeld", reason: "approval" })
      assert.isTrue((yield* ledger.review(id, true)).under_review)
      yield* decide(id)
      assert.isFalse((yield* ledger.review(id, false)).under_review)
    }))

  it.effect(
    "ends no hold of an operator, and the release of that is no approval, in any order and for all at once",
    () =>
      Effect.gen(function*() {
        const queue = yield* Queue
        const backstage = yield* Backstage
        const { hold, release, releaseAll } = queue
        const examine = (id: OperationId, provider: ProviderName) =>
          Effect.gen(function*() {
            yield* queue.takeHeld(provider, 10, readTerms)
            yield* backstage.pass(readTerms.rescue_after)
            const [read] = yield* queue.takeHeld(provider, 10, readTerms)
            yield* queue.releaseUnsent(id, read!.operation.send_before!)
          })
        const approve = (id: OperationId) => decide(id)
        type Story = ReadonlyArray<
          readonly [
            step: (id: OperationId, provider: ProviderName) => Effect.Effect<unknown, unknown, Approvals>,
            number
          ]
        >
        /** Each step, and how many operations are claimed after it. */
        const stories: Readonly<Record<string, Story>> = {
          "hold, approve": [[hold, 0], [approve, 0], [release, 1]],
          "approve, hold": [[(id) => Effect.andThen(decide(id), hold(id)), 0], [release, 1]],
          "hold, release, approve": [[hold, 0], [hold, 0], [release, 0], [approve, 1]],
          "hold, release of all, approve": [[hold, 0], [() => releaseAll, 0], [approve, 1]],
          "hold, approve, release of all": [[hold, 0], [approve, 0], [() => releaseAll, 1]],
          "hold, hold of all, status read": [[hold, 0], [() => queue.holdAll, 0], [examine, 0], [approve, 0], [
            release,
            1
          ]],
          "hold, failover, status read": [[hold, 0], [() => backstage.failOver, 0], [examine, 0], [approve, 0], [
            release,
            1
          ]],
          "failover, hold": [[() => backstage.failOver, 0], [hold, 0], [examine, 0], [approve, 0], [release, 1]],
          "hold, failover, release of all": [
            [hold, 0],
            [() => backstage.failOver, 0],
            [() => releaseAll, 0],
            [examine, 0],
            [approve, 0],
            [release, 1]
          ],
          "hold, failover, release": [
            [hold, 0],
            [() => backstage.failOver, 0],
            [(_, provider) => queue.takeHeld(provider, 10, readTerms), 0],
            [() => backstage.pass(readTerms.rescue_after), 0],
            [release, 0],
            [approve, 1]
          ],
          "hold, late report, status read": [[hold, 0], [(id) => queue.report(id, null), 0], [examine, 0], [approve, 0]]
        }
        for (const [name, story] of Object.entries(stories)) {
          const { grant: { provider }, identity } = yield* issueAtNewProvider({ authorization_details: details })
          const { id } = yield* accept(identity, { amount: "70" })
          assert.deepInclude(yield* Effect.flip(release(id)), { _tag: "StillHeld", reason: "approval" })
          for (const [n, [step, count]] of story.entries()) {
            yield* step(id, provider)
            assert.lengthOf(yield* claimIds(provider), count, `${name}, after step ${n + 1}`)
          }
        }
      }),
    60_000
  )

  it.effect("that is denied or comes too late cancels the operation with evidence, and gives the budget back", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const left = OperationStore.use((store) => Effect.map(store.limits(identity), ([euros]) => euros!.remaining))
      const denied = yield* accept(identity, { amount: "400.00" })
      const late = yield* accept(identity, { amount: "500.00" })
      assert.strictEqual(yield* left, "100.00")
      yield* decide(denied.id, { decision: "denied", reason: "unknown shop" })
      assert.strictEqual(yield* left, "500.00")
      const { expireApprovals } = yield* Queue
      yield* expireApprovals(100)
      assert.strictEqual(yield* left, "500.00")
      yield* Backstage.use(({ pass }) => pass(Duration.hours(24)))
      assert.strictEqual(reasonOf(yield* Effect.exit(decide(late.id))), "DecisionRefused late")
      yield* expireApprovals(100)
      assert.strictEqual(yield* left, "1000.00")
      const ledger = yield* OperationLedger
      for (const [{ id }, decision] of [[denied, "denied"], [late, "expired"]] as const) {
        assert.strictEqual((yield* ledger.show(id)).state, "cancelled")
        assert.deepInclude((yield* ledger.history(id)).at(-1)!.evidence, { by: "approval", decision })
      }
      assert.strictEqual(reasonOf(yield* Effect.exit(decide(denied.id))), "DecisionRefused decided")
      assert.strictEqual(reasonOf(yield* Effect.exit(decide(late.id))), "DecisionRefused late")
    }))

  it.effect("ends with the cancellation of its operation", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* accept(identity, { amount: "70" })
      yield* OperationLedger.use((ledger) => ledger.cancel(id, null))
      assert.deepInclude(yield* Approvals.use(({ find }) => find(id)), { state: "ended", decider: null })
      assert.strictEqual(reasonOf(yield* Effect.exit(decide(id))), "DecisionRefused ended")
    }))

  it.effect("ends a review: the age for the next one begins anew", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* accept(identity, { amount: "70" })
      const { pass } = yield* Backstage
      const isReviewed = Effect.gen(function*() {
        assert.deepStrictEqual(yield* claimIds(grant.provider), [])
        return (yield* OperationLedger.use((ledger) => ledger.show(id))).under_review
      })
      yield* pass(Duration.hours(23))
      yield* decide(id)
      yield* Grants.use((grants) => grants.revoke(grant.grant_id))
      assert.isFalse(yield* isReviewed)
      yield* pass(claimTerms.review_after)
      assert.isTrue(yield* isReviewed)
    }))

  it.effect("is about one operation and its terms, also where other operations have the same request", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const asked = [{ amount: "70" }, { amount: "70" }, { amount: "70.0" }, { amount: "70", payee: "B" }]
      yield* Effect.forEach(
        asked,
        (terms) => OperationLedger.use((ledger) => ledger.accept(identity, { ...request(terms), payload: "the same" }))
      )
      const [first, ...others] = yield* Approvals.use(({ pending }) =>
        pending({ resource_owner: grant.resource_owner })
      )
      assert.lengthOf(others, 3)
      for (const { request_digest } of others) {
        const exit = yield* Effect.exit(decide(first!.operation_id, { request_digest }))
        assert.strictEqual(reasonOf(exit), "DecisionRefused other_request")
      }
    }))

  it.effect(
    "of an operation that another history may have sent counts once it is proven unsent, and then ends by time",
    () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const backstage = yield* Backstage
        const stateOf = (id: OperationId) => Effect.map(ledger.show(id), ({ state }) => state)
        const doubts = { failover: () => backstage.failOver, holdAll: () => queue.holdAll, report: queue.report }
        for (const [name, doubt] of Object.entries(doubts)) {
          const { grant: { provider }, identity } = yield* issueAtNewProvider({ authorization_details: details })
          const ids = yield* Effect.forEach(
            [1, 2, 3, 4],
            () => Effect.map(accept(identity, { amount: "70" }), ({ id }) => id)
          )
          const [byOperator, byRead, late, unproven] = ids as [OperationId, OperationId, OperationId, OperationId]
          yield* Effect.forEach(ids, (id) => doubt(id, null))
          yield* queue.releaseAll
          const uncertain = Effect.map(Effect.exit(decide(byOperator)), reasonOf)
          assert.strictEqual(yield* uncertain, "DecisionRefused uncertain", name)
          assert.sameMembers([...yield* takeIds("takeHeld", provider)], ids, `${name}: examined at once`)
          yield* backstage.pass(Duration.hours(2))
          assert.strictEqual(yield* uncertain, "DecisionRefused uncertain", name)
          const reads = yield* queue.takeHeld(provider, 10, readTerms)
          const read = reads.find(({ operation }) => operation.id === byRead)!
          yield* queue.releaseUnsent(byRead, read.operation.send_before!)
          yield* queue.release(byOperator)
          yield* queue.release(late)
          assert.deepStrictEqual(yield* claimIds(provider), [], name)
          yield* decide(byRead)
          yield* decide(byOperator)
          assert.sameMembers([...yield* claimIds(provider)], [byOperator, byRead], name)
          yield* backstage.pass(Duration.hours(22))
          yield* queue.expireApprovals(100)
          assert.deepStrictEqual([yield* stateOf(late), yield* stateOf(unproven)], ["cancelled", "accepted"], name)
        }
      }),
    60_000
  )

  it.effect("that is forged changes nothing, and is refused with a reason", () =>
    Effect.gen(function*() {
      const { forged, stay } = yield* forgeDecisions
      for (const decision of fc.sample(forged, 100)) {
        const exit = yield* Effect.exit(Approvals.use((approvals) => approvals.decide(decision)))
        assert.match(String(reasonOf(exit)), /^DecisionRefused /)
      }
      yield* stay
    }))
})
