/**
 * A worker that sent nothing returns its claim, and the next worker takes it over: at most one process has the right to send.
 * The tests run against PostgreSQL and the memory store. `ReturnedClaimsInPostgres.test.ts` has the rules that only
 * PostgreSQL holds.
 */
import { assert } from "@effect/vitest"
import { DateTime, Duration, Effect, type Schema } from "effect"
import type { Claim } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import type { SubmissionQueue } from "../../../../src/services/queue/SubmissionQueue.ts"
import { accept, fieldsOf, newProvider, outcome, queueConformance } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimedOperation,
  claimIds,
  claimTerms,
  failOver,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  recording,
  returnTerms,
  standingLosses,
  takeOverIds,
  takeOverSoon
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"

const claimed = (terms: Partial<typeof claimTerms> = {}) => claimedOperation({}, terms)

/** An operation whose claim was returned. */
const returned = Effect.fnUntraced(function*(terms: Partial<typeof returnTerms> = {}) {
  const made = yield* claimed()
  yield* Effect.flatMap(Queue, (queue) => queue.returnClaim(made.claim, { ...returnTerms, ...terms }))
  return made
})

const sendBefore = ({ operation }: Claim) => DateTime.toEpochMillis(operation.send_before!)

const assertStale = (effect: Effect.Effect<unknown, { readonly _tag: string }, SubmissionQueue>) =>
  Effect.map(Effect.flip(effect), ({ _tag }) => assert.strictEqual(_tag, "StaleOperation"))

/** Everything by which a holder uses its claim. */
const assertGivenUp = Effect.fnUntraced(function*(claim: Claim) {
  const queue = yield* Queue
  const { operation: { id, send_before }, revision } = claim
  assert.isFalse(yield* queue.mayStillSend(claim))
  yield* assertStale(queue.record(id, revision, outcome("failed"), recording({ send_before })))
  yield* assertStale(queue.returnClaim(claim, returnTerms))
})

queueConformance("a returned claim", (it) => {
  it.effect("leaves the operation submitting, at the same revision and without history, for the delay", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id, provider } = yield* returned()
      assert.deepInclude(yield* ledger.show(id), { state: "submitting", revision: 2, under_review: false })
      assert.strictEqual((yield* ledger.history(id)).length, 2)
      const { due_in, return_reason } = yield* inspect(id)
      isAbout(due_in, returnTerms.delay)
      assert.strictEqual(return_reason, returnTerms.reason)
      assert.strictEqual(yield* ledger.returnReason(id), returnTerms.reason)
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      assert.deepStrictEqual(yield* claimIds(provider), [])
    }))

  it.effect("is taken over once it is due, once, and with the right to send as from a claim", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, grant, id, provider } = yield* returned()
      yield* pass(returnTerms.delay)
      assert.deepStrictEqual(yield* claimIds(provider), [], "a claim takes accepted operations only")
      const next = yield* takeOverSoon(provider)
      assert.deepInclude(next, { revision: claim.revision })
      assert.deepInclude(next.operation, { id, provider_connection_id: grant.provider_connection_id })
      assert.deepStrictEqual(yield* next.payload, { amount: "10.00" })
      isAbout(sendBefore(next) - Date.now(), claimTerms.send_within)
      isAbout((yield* inspect(id)).due_in, claimTerms.rescue_after)
      assert.isNull(yield* OperationLedger.use((ledger) => ledger.returnReason(id)))
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      assert.isTrue(yield* queue.mayStillSend(next))
      const { operation: { send_before } } = next
      const settled = yield* queue.record(id, next.revision, outcome("succeeded"), recording({ send_before }))
      assert.strictEqual(settled.state, "succeeded")
    }))

  it.effect("leaves its earlier holder no right: neither at once, nor after the take-over, nor after the next return", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, provider } = yield* returned({ delay: Duration.zero })
      yield* assertGivenUp(claim)
      const second = yield* takeOverSoon(provider)
      yield* assertGivenUp(claim)
      yield* queue.returnClaim(second, { ...returnTerms, delay: Duration.zero })
      for (const former of [claim, second]) yield* assertGivenUp(former)
      const third = yield* takeOverSoon(provider)
      for (const former of [claim, second]) yield* assertGivenUp(former)
      assert.isTrue(yield* queue.mayStillSend(third))
    }))

  it.effect("gets a later send_before with each take-over, also where the earlier one is far ahead", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, id, provider } = yield* claimed({ send_within: Duration.hours(2) })
      let last = claim
      for (let round = 0; round < 3; round++) {
        yield* queue.returnClaim(last, { ...returnTerms, delay: Duration.zero })
        const next = yield* takeOverSoon(provider)
        assert.strictEqual(sendBefore(next), sendBefore(last) + 1)
        last = next
      }
      const { due_in, send_before_in } = yield* inspect(id)
      const sendable = Duration.toMillis(claimTerms.rescue_after) - Duration.toMillis(claimTerms.send_within)
      assert.closeTo(due_in! - send_before_in!, sendable, 100, "the rescuer waits as long after send_before as always")
    }))

  it.effect("is due after a tenth of the age of the claim, no later than five minutes, and no sooner than the delay", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const cases = [
        ["20 minutes", "1 second", "2 minutes"],
        ["1 day", "1 second", "5 minutes"],
        ["1 day", "10 minutes", "10 minutes"]
      ] as const
      for (const [age, delay, expected] of cases) {
        const { claim, id } = yield* claimed()
        yield* pass(age)
        // The fixture makes the row older, and its send_before earlier.
        const send_before = DateTime.subtract(claim.operation.send_before!, { milliseconds: Duration.toMillis(age) })
        const older = { ...claim, operation: { ...claim.operation, send_before } }
        yield* queue.returnClaim(older, { ...returnTerms, delay: Duration.fromInputUnsafe(delay) })
        isAbout((yield* inspect(id)).due_in, Duration.fromInputUnsafe(expected))
      }
    }))

  it.effect("is put under review by the age of the operation: when it is returned, and later by the rescuer", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const old = yield* returned({ review_after: Duration.zero })
      assert.isTrue((yield* ledger.show(old.id)).under_review)
      const { id } = yield* returned()
      const { id: held } = yield* claimed()
      const terms = { accepted: Duration.hours(1), submitted: Duration.days(9), indeterminate: Duration.days(9) }
      yield* queue.reviewAged(1000, terms)
      assert.isFalse((yield* ledger.show(id)).under_review)
      yield* pass("1 hour")
      yield* queue.reviewAged(1000, terms)
      assert.isTrue((yield* ledger.show(id)).under_review)
      assert.isFalse((yield* ledger.show(held)).under_review, "the rescuer ends a held claim")
      yield* ledger.review(id, false)
      yield* queue.reviewAged(1000, terms)
      assert.isFalse((yield* ledger.show(id)).under_review, "after a review its age counts anew")
    }))

  for (const { lose, name, restore } of standingLosses) {
    it.effect(`is not taken over without its authorization, and waits for another one: ${name}`, () =>
      Effect.gen(function*() {
        const { grant, id, provider } = yield* returned({ delay: Duration.zero })
        yield* lose(grant)
        yield* pass("1 minute")
        assert.deepStrictEqual(yield* takeOverIds(provider), [])
        yield* restore(grant)
        yield* pass("10 minutes")
        assert.deepStrictEqual(yield* takeOverIds(provider), [id])
      }))
  }

  it.effect("is taken over in the order of the due times, of this provider, up to the limit", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const ids = yield* acceptSeveral(identity, 5)
      const claims = yield* queue.claim(provider, 5, claimTerms)
      const order = [3, 0, 4, 1, 2]
      for (const [minutes, n] of order.entries()) {
        const claim = claims.find(({ operation }) => operation.id === ids[n])!
        yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.minutes(minutes) })
      }
      const other = yield* returned({ delay: Duration.zero })
      yield* pass("3 minutes")
      assert.sameMembers([...yield* takeOverIds(provider, 2)], [ids[3], ids[0]])
      assert.sameMembers([...yield* takeOverIds(provider)], [ids[4], ids[1]])
      assert.deepStrictEqual(yield* takeOverIds(other.provider), [other.id])
    }))

  it.effect("is not rescued, because nothing was sent; once it is taken over it is", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* returned()
      yield* pass("1 day")
      assert.notInclude(yield* queue.rescue(1000), id)
      assert.deepStrictEqual(yield* takeOverIds(provider), [id])
      assert.notInclude(yield* queue.rescue(1000), id)
      yield* pass(claimTerms.rescue_after)
      assert.include(yield* queue.rescue(1000), id)
      assert.deepInclude(yield* ledger.show(id), { state: "indeterminate", revision: 3 })
    }))

  it.effect("of an earlier timeline is never taken over: the rescuer moves it at once", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* returned()
      yield* failOver
      yield* pass("1 hour")
      const later = yield* returned({ delay: Duration.zero })
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      const rescued = yield* queue.rescue(1000)
      assert.include(rescued, id)
      assert.notInclude(rescued, later.id)
      assert.deepInclude(yield* ledger.show(id), { state: "indeterminate", revision: 3 })
      const history = yield* ledger.history(id)
      assert.deepInclude(history.at(-1)!.evidence, { by: "rescuer" })
      isAbout((yield* inspect(id)).send_before_in, Duration.minutes(5))
      assert.isNull((yield* inspect(id)).return_reason)
      assert.strictEqual((yield* takeOverSoon(later.provider)).operation.id, later.id)
    }))

  it.effect("that was returned again after the timeline changed is never taken over", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, id, provider } = yield* claimed()
      yield* failOver
      yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero })
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      assert.include(yield* queue.rescue(1000), id)
    }))

  it.effect("does not fail by an operator once it is taken over, and may be sent: its revision stays", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* returned({ delay: Duration.zero })
      const operation = yield* ledger.show(id)
      const fail = (evidence: Schema.Json) => ledger.transition(id, operation.revision, outcome("failed"), evidence)
      const claim = yield* takeOverSoon(provider)
      const error = yield* Effect.flip(fail(null))
      assert.deepInclude(error, { _tag: "IllegalTransition", reason: "claimed" })
      yield* queue.returnClaim(claim, returnTerms)
      const untold = yield* Effect.flip(fail({ by: "operator" }))
      assert.deepInclude(untold, { _tag: "IllegalTransition", reason: "evidence_required" })
      const failed = yield* fail({ by: "operator", ...evidenceOf(operation) })
      assert.strictEqual(failed.state, "failed")
    }))

  it.effect("has a reason that can be stored", () =>
    Effect.gen(function*() {
      const reasons = [["", "no reason given"], ["a\0b", "a\uFFFDb"], ["x".repeat(2000), "x".repeat(1024)], [
        `${"x".repeat(1023)}😀`,
        `${"x".repeat(1023)}\uFFFD`
      ]] as const
      for (const [reason, stored] of reasons) {
        const { id } = yield* returned({ reason })
        assert.strictEqual((yield* inspect(id)).return_reason, stored)
      }
    }))

  it.effect("is not there for an operation that does not exist, or that was claimed by hand", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim } = yield* returned()
      const unknown = {
        ...claim,
        operation: { ...claim.operation, id: "00000000-0000-7000-8000-000000000000" as never }
      }
      const error = yield* Effect.flip(queue.returnClaim(unknown, returnTerms))
      assert.deepInclude(fieldsOf(error), { _tag: "OperationNotFound" })
      const ledger = yield* OperationLedger
      const { operation } = yield* accept((yield* issueAtNewProvider()).identity)
      yield* ledger.transition(operation.id, 1, outcome("submitting"), null)
      const byHand = { ...claim, operation: { ...claim.operation, id: operation.id, send_before: null } }
      yield* assertStale(queue.returnClaim(byHand, returnTerms))
    }))
})

queueConformance("after a rollback on the same timeline", (it) => {
  it.effect("a hold of all operations moves returned claims to indeterminate, and waits for lost take-overs", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { claim, id, provider } = yield* returned({ delay: Duration.zero })
      const { operation } = yield* accept((yield* issueAtNewProvider()).identity)
      assert.strictEqual(yield* queue.holdAll, 1)
      assert.isTrue((yield* inspect(operation.id)).is_held)
      assert.deepInclude(yield* ledger.show(id), { state: "indeterminate", revision: 3 })
      isAbout((yield* inspect(id)).send_before_in, Duration.minutes(5))
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      yield* assertGivenUp(claim)
    }))

  it.effect("a held claim ends, too: a late return makes nothing claimable, and its holder records nothing", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, id, provider } = yield* claimed()
      yield* queue.holdAll
      assert.isFalse(yield* queue.mayStillSend(claim))
      const { operation: { send_before }, revision } = claim
      const late = yield* Effect.flip(queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero }))
      assert.strictEqual(late._tag, "StaleOperation")
      const stale = yield* Effect.flip(queue.record(id, revision, outcome("submitted"), recording({ send_before })))
      assert.strictEqual(stale._tag, "StaleOperation")
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* takeOverIds(provider), [])
      assert.strictEqual((yield* OperationLedger.use((ledger) => ledger.show(id))).state, "indeterminate")
      // A take-over that is lost may be sent until then, and "not found" is final only after that.
      isAbout((yield* inspect(id)).send_before_in, Duration.minutes(4))
    }))
})

queueConformance("the claims of a worker", (it) => {
  const worker = (name: string) => ({ ...claimTerms, worker: name })

  it.effect("have its id, and the id of the worker that took them over", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { claim, id, provider } = yield* claimed({ worker: "first" })
      assert.strictEqual((yield* inspect(id)).claimed_by, "first")
      yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.zero })
      yield* takeOverSoon(provider, worker("second"))
      assert.strictEqual((yield* inspect(id)).claimed_by, "second")
      assert.isNull((yield* inspect((yield* claimed()).id)).claimed_by)
    }))

  it.effect("become indeterminate when it starts again: its held ones, and no others", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const name = newProvider()
      const mine = [yield* claimed({ worker: name }), yield* claimed({ worker: name })]
      const back = yield* claimed({ worker: name })
      yield* queue.returnClaim(back.claim, { ...returnTerms, delay: Duration.zero })
      const others = [yield* claimed({ worker: newProvider() }), yield* claimed()]
      const before = yield* inspect(mine[0]!.id)
      assert.strictEqual(yield* queue.rescueClaimsOf(name), 2)
      assert.strictEqual(yield* queue.rescueClaimsOf(name), 0)
      for (const { claim, id } of mine) {
        assert.deepInclude(yield* ledger.show(id), { state: "indeterminate", revision: 3 })
        assert.deepInclude((yield* ledger.history(id)).at(-1)!.evidence, { by: "rescuer" })
        yield* assertGivenUp(claim)
      }
      assert.closeTo((yield* inspect(mine[0]!.id)).send_before_in!, before.send_before_in!, 5000)
      isAbout((yield* inspect(mine[0]!.id)).due_in, Duration.zero)
      for (const { id } of [back, ...others]) assert.strictEqual((yield* ledger.show(id)).state, "submitting")
      assert.strictEqual((yield* takeOverSoon(back.provider)).operation.id, back.id)
    }))

  it.effect("wait for lost take-overs after a change of the timeline", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const name = newProvider()
      const { id } = yield* claimed({ worker: name })
      yield* failOver
      assert.strictEqual(yield* queue.rescueClaimsOf(name), 1)
      isAbout((yield* inspect(id)).send_before_in, Duration.minutes(5))
    }))
})
