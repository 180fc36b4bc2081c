import { assert } from "@effect/vitest"
import { Cause, Duration, Effect, Exit } from "effect"
import type { OperationId } from "../../src/domain/Operation.ts"
import type { DueRead } from "../../src/domain/Submission.ts"
import { Grants } from "../../src/services/Grants.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import { accept, conformance, fieldsOf, newProvider, outcome } from "../fixtures/Ledger.ts"
import {
  acceptSeveral,
  claimIds,
  failOver,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  recording,
  reference,
  takeIds,
  waitOut,
  withdrawals
} from "../fixtures/Queue.ts"
import { specifiedStates } from "../fixtures/Specification.ts"

/** An operation that was accepted before the timeline changed. */
const heldOperation = Effect.gen(function*() {
  const issued = yield* issueAtNewProvider()
  const { operation } = yield* accept(issued.identity)
  yield* failOver
  return { ...issued, id: operation.id, provider: issued.grant.provider }
})

conformance("an operation that a change of the timeline holds", (it) => {
  it.effect("is put under review and read, as if somebody had just claimed it", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const { grant, id, provider } = yield* heldOperation
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [])
      const [read, ...others] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.isEmpty(others)
      const { operation, ...rest } = read!
      assert.deepStrictEqual(rest, { provider, state: "accepted", revision: 1, reference: null, reads: 1 })
      assert.deepInclude(operation, {
        id,
        resource_owner: grant.resource_owner,
        provider_binding_id: grant.provider_binding_id
      })
      isAbout(operation.send_before!.epochMilliseconds - Date.now(), readTerms.rescue_after)
      assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review: true })
      isAbout((yield* inspect(id)).due_in, readTerms.lease)
    }))

  it.effect("could be sent until a claim is stale, counted from the first look on, whenever it is looked at again", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const { provider } = yield* heldOperation
      yield* takeIds("takeHeld", provider)
      yield* pass("2 hours")
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      const left = Duration.subtract(readTerms.rescue_after, Duration.hours(2))
      isAbout(read!.operation.send_before!.epochMilliseconds - Date.now(), left)
      assert.strictEqual(read!.reads, 2)
    }))

  it.effect("could be sent until then once more after another change, which may have forgotten a release and a claim", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const { provider } = yield* heldOperation
      for (const change of [failOver, Effect.asVoid(queue.holdAll)]) {
        yield* takeIds("takeHeld", provider)
        yield* pass("2 hours")
        yield* change
        const [read] = yield* queue.takeHeld(provider, 10, readTerms)
        isAbout(read!.operation.send_before!.epochMilliseconds - Date.now(), readTerms.rescue_after)
        yield* pass("2 hours")
      }
    }))

  it.effect("is the reader's alone for the lease, as many as it asks for, oldest first, of the provider it names", () =>
    Effect.gen(function*() {
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const ids = yield* acceptSeveral(identity, 5)
      yield* failOver
      assert.deepStrictEqual(yield* takeIds("takeHeld", newProvider()), [])
      assert.sameMembers([...yield* takeIds("takeHeld", provider, 2)], ids.slice(0, 2))
      assert.sameMembers([...yield* takeIds("takeHeld", provider)], ids.slice(2))
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [])
      yield* pass(readTerms.lease)
      assert.sameMembers([...yield* takeIds("takeHeld", provider)], ids)
    }))

  it.effect("is not what was accepted after the change, nor what is in any other state", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      for (const state of specifiedStates.filter((state) => state !== "accepted")) yield* queued(issued, state)
      yield* failOver
      yield* pass("1 day")
      yield* queued(issued, "accepted")
      assert.deepStrictEqual(yield* takeIds("takeHeld", issued.grant.provider), [])
    }))

  for (const { name, restore, withdraw } of withdrawals) {
    it.effect(`is not read while ${name}, but put under review all the same`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { grant, id, provider } = yield* heldOperation
        yield* withdraw(grant)
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [])
        assert.isTrue((yield* ledger.show(id)).under_review)
        isAbout((yield* inspect(id)).due_in, readTerms.idle)
        yield* restore(grant)
        yield* pass(readTerms.idle)
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
      }))
  }

  it.effect("stays accepted and under review whatever its age, until somebody proves or releases it", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id, provider } = yield* heldOperation
      for (let year = 0; year < 3; year++) {
        yield* pass("365 days")
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
        assert.deepStrictEqual(yield* claimIds(provider), [])
      }
      assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review: true })
    }))

  it.effect("stays without a review for a while that an operator cleared", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id, provider } = yield* heldOperation
      const isReviewed = Effect.map(
        Effect.andThen(takeIds("takeHeld", provider), ledger.show(id)),
        ({ under_review }) => under_review
      )
      assert.isTrue(yield* isReviewed)
      yield* ledger.review(id, false)
      yield* pass("14 minutes")
      assert.isFalse(yield* isReviewed)
      yield* pass("1 minute")
      assert.isTrue(yield* isReviewed)
    }))

  it.effect("cannot be cancelled or fail before it is released, because it may have been sent", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      const ends = [
        ledger.cancel(id, { by: "operator" }),
        ledger.transition(id, 1, { state: "cancelled" }, { by: "operator" }),
        ledger.transition(id, 1, outcome("failed"), { by: "operator" })
      ]
      const isRefused = Effect.gen(function*() {
        const before = yield* ledger.show(id)
        for (const end of ends) {
          const error = fieldsOf(yield* Effect.flip(end))
          assert.deepInclude(error, { _tag: "IllegalTransition", from: "accepted", reason: "held" })
        }
        assert.deepStrictEqual(yield* ledger.show(id), before)
      })
      yield* isRefused
      yield* waitOut(provider)
      yield* isRefused
      yield* queue.release(id)
      assert.strictEqual((yield* ledger.cancel(id, { by: "operator" })).state, "cancelled")
    }))
})

conformance("the release of a held operation", (it) => {
  it.effect("is refused until nobody else can send it, and then lets it be claimed, without a transition", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      const refusal = Effect.map(Effect.flip(queue.release(id)), fieldsOf)
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", id, reason: "unexamined", until: null })
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      const before = yield* inspect(id)
      const until = read!.operation.send_before
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "sendable", until })
      yield* pass(Duration.subtract(readTerms.rescue_after, Duration.seconds(10)))
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "sendable" })
      assert.strictEqual((yield* inspect(id)).timelines_behind, before.timelines_behind)
      assert.deepStrictEqual(yield* claimIds(provider), [])
      yield* pass("10 seconds")
      const released = yield* queue.release(id)
      assert.deepInclude(released, { state: "accepted", revision: 1, under_review: false })
      assert.deepStrictEqual(yield* ledger.show(id), released)
      const inside = yield* inspect(id)
      assert.deepInclude(inside, { send_before_in: null, timelines_behind: 0 })
      isAbout(inside.due_in, Duration.zero)
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [])
      assert.deepStrictEqual(yield* claimIds(provider), [id])
    }))

  it.effect("is undone by the next change of the timeline", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      yield* waitOut(provider)
      yield* queue.release(id)
      yield* failOver
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepInclude(fieldsOf(yield* Effect.flip(queue.release(id))), { _tag: "StillHeld", reason: "unexamined" })
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
    }))

  it.effect("may be repeated, and is refused once the operation has left accepted", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      yield* waitOut(provider)
      yield* queue.release(id)
      const inside = yield* inspect(id)
      yield* pass("1 minute")
      const before = yield* ledger.show(id)
      assert.deepStrictEqual(yield* queue.release(id), before)
      assert.isBelow((yield* inspect(id)).due_in!, inside.due_in!, "and changes nothing then")
      assert.deepStrictEqual(yield* claimIds(provider), [id])
      const issued = yield* issueAtNewProvider()
      for (const state of specifiedStates.filter((state) => state !== "accepted")) {
        const before = yield* queued(issued, state)
        const error = yield* Effect.flip(queue.release(before.id))
        assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", from: state, reason: "not_permitted" })
        assert.deepStrictEqual(yield* ledger.show(before.id), before)
      }
    }))

  it.effect("is refused when the provider has acknowledged it, whoever asks", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      yield* queue.report(id, reference("theirs"))
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.strictEqual(read!.reference, reference("theirs"))
      yield* pass("1 hour")
      assert.deepInclude(fieldsOf(yield* Effect.flip(queue.release(id))), { _tag: "StillHeld", reason: "acknowledged" })
      const unsent = queue.releaseUnsent(id, read!.operation.send_before!)
      assert.strictEqual((yield* Effect.flip(unsent))._tag, "StaleOperation")
      yield* queue.releaseAll
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
    }))

  it.effect("by a status read is refused once the operation was released, or is held anew: it may have been sent since", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      const isReleased = (read: DueRead) =>
        Effect.map(Effect.result(queue.releaseUnsent(id, read.operation.send_before!)), (result) => {
          if (result._tag === "Success") return true
          assert.strictEqual(result.failure._tag, "StaleOperation")
          return false
        })
      for (const change of [failOver, queue.release(id), Effect.andThen(failOver, queue.holdAll)]) {
        yield* pass("2 hours")
        const [read] = yield* queue.takeHeld(provider, 10, readTerms)
        yield* pass("2 minutes")
        yield* change
        assert.isFalse(yield* isReleased(read!))
        yield* failOver
        assert.isFalse(yield* isReleased(read!))
      }
      yield* pass("2 hours")
      const [tooEarly] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.isFalse(yield* isReleased(tooEarly!))
      yield* pass("2 hours")
      const [first] = yield* queue.takeHeld(provider, 10, readTerms)
      yield* pass("2 hours")
      const [second] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.isTrue(yield* isReleased(second!))
      assert.isFalse(yield* isReleased(first!))
      assert.deepStrictEqual(yield* claimIds(provider), [id])
    }))

  it.effect("is not put off by a status read that was taken before it", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      const { send_before } = read!.operation
      const putOff = queue.postpone(id, 1, { due_in: Duration.hours(3), reference: null, send_before })
      yield* putOff
      isAbout((yield* inspect(id)).due_in, Duration.hours(3))
      yield* pass("4 hours")
      yield* queue.release(id)
      yield* putOff
      assert.deepStrictEqual(yield* claimIds(provider), [id])
    }))

  it.effect("of all releases what is held, says how much that was, and leaves all else alone", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      yield* failOver
      const others = yield* queue.releaseAll
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const held = yield* acceptSeveral(identity, 3)
      const [cancelled] = yield* acceptSeveral(identity, 1)
      yield* OperationLedger.use((ledger) => ledger.cancel(cancelled!, null))
      yield* failOver
      const [later] = yield* acceptSeveral(identity, 1)
      const before = yield* inspect(later!)
      assert.strictEqual(yield* queue.releaseAll, others + 3)
      assert.strictEqual(yield* queue.releaseAll, 0)
      assert.isAtMost((yield* inspect(later!)).due_in!, before.due_in!)
      assert.sameMembers([...yield* claimIds(provider)], [...held, later])
    }))
})

conformance("what a worker reports that the ledger has elsewhere by now", (it) => {
  it.effect("holds an operation whose claim was forgotten, whether or not it was released since", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const { id, provider } = yield* heldOperation
      yield* waitOut(provider)
      yield* queue.release(id)
      yield* queue.report(id, null)
      assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review: true })
      assert.deepStrictEqual(yield* claimIds(provider), [])
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.deepInclude({ ...read! }, { state: "accepted", reference: null })
    }))

  it.effect("lets the status of one that was rescued be read at once, by the name that the provider gave it", () =>
    Effect.gen(function*() {
      const queue = yield* SubmissionQueue
      const issued = yield* issueAtNewProvider()
      for (const state of ["submitted", "indeterminate"] as const) {
        const { id, revision } = yield* queued(issued, state)
        yield* queue.postpone(id, revision, { due_in: Duration.hours(1), reference: null })
        yield* queue.report(id, reference("theirs"))
        yield* queue.report(id, reference("another"))
        const [read] = yield* queue.takeReads(issued.grant.provider, 10, readTerms)
        assert.deepInclude({ ...read! }, { state, revision, reference: reference("theirs") })
      }
    }))

  it.effect("leaves alone what somebody else has claimed, and what is settled", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const issued = yield* issueAtNewProvider()
      for (const state of ["submitting", "succeeded", "failed", "cancelled"] as const) {
        const { id } = yield* queued(issued, state)
        const before = [yield* ledger.show(id), (yield* inspect(id)).reference]
        yield* queue.report(id, reference("theirs"))
        assert.deepStrictEqual([yield* ledger.show(id), (yield* inspect(id)).reference], before)
      }
    }))
})

conformance("holding all that is accepted", (it) => {
  it.effect("holds it on whichever timeline, says how much that is, and touches nothing else", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      yield* queue.releaseAll
      const others = yield* queue.holdAll
      const issued = yield* issueAtNewProvider()
      const elsewhere = []
      for (const state of specifiedStates.filter((state) => state !== "accepted")) {
        elsewhere.push(yield* queued(issued, state))
      }
      const ids = yield* acceptSeveral(issued.identity, 2)
      assert.strictEqual(yield* queue.holdAll, others + 2)
      assert.deepStrictEqual(yield* claimIds(issued.grant.provider), [])
      assert.sameMembers([...yield* takeIds("takeHeld", issued.grant.provider)], ids)
      for (const before of elsewhere) assert.deepStrictEqual(yield* ledger.show(before.id), before)
      const { operation: later } = yield* accept(issued.identity)
      assert.deepStrictEqual(yield* claimIds(issued.grant.provider), [later.id])
    }))
})

conformance("what a status read proves of a held operation", (it) => {
  for (const state of ["submitted", "succeeded", "failed", "indeterminate"] as const) {
    it.effect(`is recorded as ${state}, through submitting, and nothing is sent`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* SubmissionQueue
        const { id, provider } = yield* heldOperation
        const given = recording({ evidence: { status: state }, reference: reference("theirs") })
        const recorded = yield* queue.recordHeld(id, 1, outcome(state), given)
        assert.deepInclude(recorded, { state, revision: 3 })
        assert.deepStrictEqual(yield* ledger.show(id), recorded)
        const history = yield* ledger.history(id)
        assert.deepStrictEqual(history.map(({ evidence, from, revision, to }) => [revision, from, to, evidence]), [
          [1, null, "accepted", null],
          [2, "accepted", "submitting", { status: state }],
          [3, "submitting", state, { status: state }]
        ])
        const inside = yield* inspect(id)
        assert.strictEqual(inside.reference, "theirs")
        if (recorded.terminal) assert.isNull(inside.due_in)
        else isAbout(inside.due_in, Duration.minutes(5))
        assert.deepStrictEqual(yield* claimIds(provider), [])
      }))
  }

  it.effect("is recorded as a whole or not at all", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      const { id } = yield* heldOperation
      const before = yield* ledger.show(id)
      const inside = yield* inspect(id)
      // The first of its two transitions would be legal.
      for (const to of ["cancelled", "accepted", "submitting"] as const) {
        const exit = yield* Effect.exit(queue.recordHeld(id, 1, outcome(to), recording()))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), to)
        assert.deepStrictEqual(yield* ledger.show(id), before)
        assert.lengthOf(yield* ledger.history(id), 1)
        isAbout((yield* inspect(id)).due_in, Duration.millis(inside.due_in!))
      }
    }))

  it.effect("is not recorded for another revision, and so not twice, though several record at once", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* SubmissionQueue
      for (let round = 0; round < 10; round++) {
        const { id } = yield* heldOperation
        const results = yield* Effect.forEach(
          ["succeeded", "failed", "submitted", "succeeded"] as const,
          (to) => Effect.result(queue.recordHeld(id, 1, outcome(to), recording())),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(results.filter(({ _tag }) => _tag === "Success"), 1)
        for (const result of results) {
          if (result._tag === "Failure") {
            assert.deepInclude(fieldsOf(result.failure), { _tag: "StaleOperation", actual: 3 })
          }
        }
        assert.lengthOf(yield* ledger.history(id), 3)
      }
    }))

  it.effect("comes too late once the operation was released and then claimed, or cancelled", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const grants = yield* Grants
      const queue = yield* SubmissionQueue
      const claimed = yield* heldOperation
      yield* waitOut(claimed.provider)
      yield* queue.release(claimed.id)
      yield* claimIds(claimed.provider)
      const cancelled = yield* heldOperation
      yield* waitOut(cancelled.provider)
      yield* queue.release(cancelled.id)
      yield* ledger.cancel(cancelled.id, null)
      yield* grants.revoke(cancelled.grant.grant_id)
      for (const id of [claimed.id, cancelled.id] as ReadonlyArray<OperationId>) {
        const before = yield* ledger.show(id)
        const error = yield* Effect.flip(queue.recordHeld(id, 1, outcome("succeeded"), recording()))
        assert.deepInclude(fieldsOf(error), { _tag: "StaleOperation", expected: 1, actual: 2 })
        assert.deepStrictEqual(yield* ledger.show(id), before)
      }
    }))
})
