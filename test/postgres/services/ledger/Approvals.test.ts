/**
 * An operation that needs an approval is sent only after a decision about it: of a person, in time, once, about the same request. Both
 * ledgers give the same answers.
 */
import { assert, it } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import * as fc from "fast-check"
import type { Approval, ApprovalState, Decision, PendingApprovals } from "../../../../src/domain/Approval.ts"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import type { ResourceOwner } from "../../../../src/domain/Grant.ts"
import { Approvals } from "../../../../src/services/Approvals.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { findDecisionRefusal } from "../../../../src/services/rules/approvals.ts"
import type { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import * as payments from "../../../fixtures/ledger/ApprovedPayments.ts"
import { feedReader } from "../../../fixtures/ledger/Changes.ts"
import { forgeDecisions, reasonOf } from "../../../fixtures/ledger/ForgedDecisions.ts"
import { conformance, unknownId } from "../../../fixtures/ledger/Ledger.ts"
import * as l from "../../../fixtures/ledger/LedgerStories.ts"
import { claimTerms, issueAtNewProvider, readTerms } from "../../../fixtures/ledger/Queue.ts"

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

const { details } = payments
const limited = { authorization_details: details }

const asks = (asked: payments.Asked = { amount: "70" }) => l.creates(({ identity }) => payments.accept(identity, asked))
/** The payment that was asked first. */
const pays = (payee: string, asked: payments.Asked = {}, state?: Parameters<typeof payments.paid>[2]) =>
  l.creates(({ identity }) => payments.paid(identity, { payee, ...asked }, state))
const waits =
  (expected: boolean, asked: payments.Asked, authorization_details?: AuthorizationDetails): l.Step => ({ identity }) =>
    Effect.map(
      payments.waits({ ...identity, ...authorization_details && { authorization_details } }, asked),
      (actual) => assert.strictEqual(actual, expected, JSON.stringify(asked))
    )
const decide = (n = 0, rest: Partial<Decision> = {}): l.Step => ({ ids }) => payments.decide(ids[n]!, rest)
const refused = (reason: string, n = 0, rest?: Partial<Decision>) =>
  l.refused(decide(n, rest), `DecisionRefused ${reason}`)
const cannotRelease = l.refused(l.release(), "StillHeld approval")
const expires = l.call(({ expireApprovals }) => expireApprovals(100))
const endedAs = (decision: ApprovalState, n: number): l.Step => ({ ids }) =>
  Effect.map(
    OperationLedger.use((ledger) => ledger.history(ids[n]!)),
    (history) => assert.deepInclude(history.at(-1)!.evidence, { by: "approval", decision })
  )
const left = (expected: string): l.Step => ({ identity }) =>
  Effect.map(
    OperationStore.use((store) => store.limits(identity)),
    ([euros]) => assert.strictEqual(euros!.remaining, expected)
  )

const [none, one] = [l.claims([]), l.claims([0])]
const examine = [l.takeHeld(), none, l.pass(readTerms.rescue_after), none]
/** What another history may have sent is released first. */
const released = [examine, l.release(), none, decide(), one]
/** What is claimed after each step. */
const holds: Readonly<Record<string, l.Story>> = {
  "hold, approve": [l.hold(), none, decide(), none, l.release(), one],
  "approve, hold": [decide(), l.hold(), none, l.release(), one],
  "hold, release, approve": [l.hold(), none, l.hold(), none, l.release(), none, decide(), one],
  "hold, release of all, approve": [l.hold(), none, l.releaseAll, none, decide(), none, l.release(), one],
  "hold, approve, release of all": [l.hold(), none, decide(), none, l.releaseAll, none, l.release(), one],
  "hold, hold of all": [l.hold(), none, l.holdAll, none, released],
  "failover, hold": [l.failOver, none, l.hold(), none, released],
  "hold, failover, release of all": [l.hold(), none, l.failOver, none, l.releaseAll, none, released],
  "hold, failover": [l.hold(), none, l.failOver, none, released],
  "hold, late report": [l.hold(), none, l.report(), none, released]
}

const doubts = {
  "a failover": [l.failOver],
  "a hold of all": [l.holdAll],
  "a report": [0, 1, 2, 3].map((n) => l.report(n))
}

l.tell("an approval", {
  "is needed above the line, in a currency without a line, and for a payee that received nothing yet": [
    [pays("returned"), l.call((queue, id) => queue.recordReversal(id, { saw: "return" }))],
    [pays("A"), pays("failed", {}, "failed"), pays("unkept", { kept: false }), pays("open", {}, "submitted")],
    [waits(false, { amount: "50" }), waits(true, { amount: "50.01" }), waits(true, { amount: "1", currency: "USD" })],
    [waits(false, { amount: "0" }), waits(false, { type: "fee", amount: "100", payee: "fees" })],
    ["a", "A ", "failed", "unkept", "open", "returned"].map((payee) => waits(true, { payee })),
    // A credential adds approvals, and takes none away.
    waits(true, { amount: "20" }, [
      { type: "financial_operations", approval: { above: [{ currency: "EUR", amount: "0" }] } }
    ]),
    [waits(true, { amount: "60" }, [{ type: "financial_operations" }])],
    [l.otherGrant(limited), waits(true, { payee: "A" })]
  ],
  "that is awaited keeps the operation under review: an operator cannot end it": [
    [asks(), l.refused(l.review(false), "StillHeld approval"), l.review(true), l.is({ under_review: true })],
    [decide(), l.review(false), l.is({ under_review: false })]
  ],
  ...Object.fromEntries(
    Object.entries(holds).map(([name, story]) => [
      `ends no hold of an operator, and the release of that is no approval: ${name}`,
      [asks(), cannotRelease, story]
    ])
  ),
  "that is denied or comes too late cancels the operation with evidence, and gives the budget back": [
    [asks({ amount: "400.00" }), asks({ amount: "500.00" }), left("100.00")],
    [decide(0, { decision: "denied", reason: "unknown shop" }), left("500.00"), expires, left("500.00")],
    [l.pass("24 hours"), refused("late", 1), expires, left("1000.00")],
    [l.is({ state: "cancelled" }, 0), endedAs("denied", 0), l.is({ state: "cancelled" }, 1), endedAs("expired", 1)],
    [refused("decided", 0), refused("late", 1)]
  ],
  "ends with the cancellation of its operation": [
    [asks(), ({ ids }) => OperationLedger.use((ledger) => ledger.cancel(ids[0]!, null))],
    ({ ids }) =>
      Effect.map(
        Approvals.use(({ find }) => find(ids[0]!)),
        (approval) => assert.deepInclude(approval, { state: "ended", decider: null })
      ),
    refused("ended")
  ],
  "ends a review: the age for the next one begins anew": [
    [asks(), l.pass("23 hours"), decide(), ({ grant }) => Grants.use((grants) => grants.revoke(grant.grant_id))],
    [none, l.is({ under_review: false }), l.pass(claimTerms.review_after), none, l.is({ under_review: true })]
  ],
  ...Object.fromEntries(
    Object.entries(doubts).map(([name, doubt]) => [
      `of an operation that another history may have sent counts once it is released, and then ends by time: ${name}`,
      [
        [asks(), asks(), asks(), asks(), doubt, l.releaseAll, refused("uncertain"), l.takeHeld([0, 1, 2, 3])],
        [l.pass("2 hours"), refused("uncertain"), l.release(1), l.release(0), l.release(2), none],
        [decide(1), decide(0), l.claims([0, 1]), l.pass("22 hours"), expires],
        [l.is({ state: "cancelled" }, 2), l.is({ state: "accepted" }, 3)]
      ]
    ])
  )
}, limited)

conformance("an approval", (it) => {
  it.effect("shows what the operation moves; without one the operation is held, under review, and no worker claims it", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider(limited)
      const scene: l.Scene = { grant, identity, ids: [] }
      const operation = yield* payments.accept(identity, { amount: "70.00", payee: "DE02" })
      scene.ids.push(operation.id)
      assert.deepInclude(operation, { state: "accepted", under_review: true, revision: 1 })
      const awaited = Approvals.use(({ pending }) => pending({ resource_owner: grant.resource_owner }))
      const [approval, ...rest] = yield* awaited
      assert.lengthOf(rest, 0)
      assert.deepInclude(approval, {
        operation_id: operation.id,
        state: "pending",
        terms: { amount: "70.00", currency: "EUR", payee: "DE02" },
        decided_at: null
      })
      const life = approval!.expires_at.epochMilliseconds - operation.created_at.epochMilliseconds
      assert.strictEqual(life, Duration.toMillis("24 hours"))
      const feed = feedReader(identity)
      assert.deepStrictEqual(yield* feed.drain(), [operation])
      yield* l.pass("23 hours")(scene)
      yield* none(scene)
      yield* payments.decide(operation.id, {
        decider: { as: "operator", name: "anna", via: "console" },
        reason: "known"
      })
      const told = yield* feed.drain()
      assert.deepStrictEqual(told, [yield* OperationLedger.use((ledger) => ledger.show(operation.id))])
      assert.deepInclude(told[0], { id: operation.id, state: "accepted", under_review: false })
      yield* one(scene)
      const history = yield* OperationLedger.use((ledger) => ledger.history(operation.id))
      const { decided_at, ...recorded } = history.at(-1)!.evidence as Record<string, unknown>
      assert.deepStrictEqual(recorded, {
        by: "approval",
        decision: "approved",
        decided_as: "operator",
        decider: "anna",
        reason: "known"
      })
      assert.match(String(decided_at), /^\d{4}-.*Z$/)
      assert.isEmpty(yield* awaited)
    }))

  it.effect("that is awaited is listed, the first to end in front, in pages, of one owner or all; each owner is listed once", () =>
    Effect.gen(function*() {
      const { owners, pending } = yield* Approvals
      const grants = yield* Effect.forEach(
        [3, 1, 5],
        Effect.fnUntraced(function*(count) {
          const { grant, identity } = yield* issueAtNewProvider(limited)
          const requests = Array.from({ length: count }, () => payments.request({ payee: "new" }))
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

  it.effect("is about one operation and its terms, also where other operations have the same request", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider(limited)
      const asked = [{ amount: "70" }, { amount: "70" }, { amount: "70.0" }, { amount: "70", payee: "B" }]
      yield* Effect.forEach(
        asked,
        (terms) =>
          OperationLedger.use((ledger) => ledger.accept(identity, { ...payments.request(terms), payload: "the same" }))
      )
      const [first, ...others] = yield* Approvals.use(({ pending }) =>
        pending({ resource_owner: grant.resource_owner })
      )
      assert.lengthOf(others, 3)
      for (const { request_digest } of others) {
        const exit = yield* Effect.exit(payments.decide(first!.operation_id, { request_digest }))
        assert.strictEqual(reasonOf(exit), "DecisionRefused other_request")
      }
    }))

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
