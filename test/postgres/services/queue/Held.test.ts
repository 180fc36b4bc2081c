/**
 * A change of the timeline holds accepted operations: workers do not claim them, the reconciler reads their status. The
 * tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Cause, Duration, Effect, Exit } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, fieldsOf, newProvider, outcome, queueConformance } from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimIds,
  failOver,
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  recording,
  reference,
  standingLosses,
  takeIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

queueConformance("an operation that a change of the timeline holds", (it) => {
  it.effect("is put under review, and its status is read as after a new claim", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { grant, id, provider } = yield* heldOperation
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [])
      const [read, ...others] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.isEmpty(others)
      const { created_at: _, operation, taken_at, ...rest } = read!
      isAbout(taken_at.epochMilliseconds - Date.now(), Duration.zero)
      assert.deepStrictEqual(rest, {
        provider,
        state: "accepted",
        revision: 1,
        reference: null,
        acknowledged: false,
        reads: 1,
        fence_started_at: null,
        provider_account: null
      })
      assert.deepInclude(operation, {
        id,
        resource_owner: grant.resource_owner,
        provider_connection_id: grant.provider_connection_id
      })
      isAbout(operation.send_before!.epochMilliseconds - Date.now(), readTerms.rescue_after)
      assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review: true })
      isAbout((yield* inspect(id)).due_in, readTerms.lease)
    }))

  it.effect("may be sent by others until a claim is stale, counted from its first examination only", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { provider } = yield* heldOperation
      yield* takeIds("takeHeld", provider)
      yield* pass("2 hours")
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      const left = Duration.subtract(readTerms.rescue_after, Duration.hours(2))
      isAbout(read!.operation.send_before!.epochMilliseconds - Date.now(), left)
      assert.strictEqual(read!.reads, 2)
    }))

  it.effect("may be sent by others for as long again after another change, which may have lost a release and a claim", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
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

  it.effect("belongs to one reader for the lease: up to the limit, oldest first, of the provider that it names", () =>
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

  it.effect("was accepted before the change: later operations and those in other states are not held", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      for (const state of specifiedStates.filter((state) => state !== "accepted")) yield* queued(issued, state)
      yield* failOver
      yield* pass("1 day")
      yield* queued(issued, "accepted")
      assert.deepStrictEqual(yield* takeIds("takeHeld", issued.grant.provider), [])
    }))

  for (const { lose, name, restore } of standingLosses) {
    it.effect(`is not read while ${name}, but is put under review`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { grant, id, provider } = yield* heldOperation
        yield* lose(grant)
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [])
        assert.isTrue((yield* ledger.show(id)).under_review)
        isAbout((yield* inspect(id)).due_in, readTerms.idle)
        yield* restore(grant)
        yield* pass(readTerms.idle)
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
      }))
  }

  it.effect("stays accepted and under review at any age, except for a while after an operator cleared the review", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { id, provider } = yield* heldOperation
      const isReviewed = Effect.fnUntraced(function*(under_review: boolean) {
        assert.deepStrictEqual(yield* claimIds(provider), [])
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [id])
        assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review })
      })
      yield* isReviewed(true)
      yield* ledger.review(id, false)
      yield* pass("14 minutes")
      yield* isReviewed(false)
      yield* pass("1 minute")
      yield* isReviewed(true)
      yield* pass("1000 days")
      yield* isReviewed(true)
    }))

  it.effect("cannot be cancelled or fail before it is released, because it may have been sent", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
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

queueConformance("holding all accepted operations", (it) => {
  it.effect("holds accepted operations of every timeline, ends claims, and changes the state of no others", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      yield* queue.releaseAll
      const others = yield* queue.holdAll
      const issued = yield* issueAtNewProvider()
      const elsewhere = []
      for (const state of specifiedStates.filter((state) => state !== "accepted" && state !== "submitting")) {
        elsewhere.push(yield* queued(issued, state))
      }
      const claimed = yield* queued(issued, "submitting")
      const ids = yield* acceptSeveral(issued.identity, 2)
      assert.strictEqual(yield* queue.holdAll, others + 2)
      assert.strictEqual((yield* ledger.show(claimed.id)).state, "indeterminate")
      assert.deepStrictEqual(yield* claimIds(issued.grant.provider), [])
      assert.sameMembers([...yield* takeIds("takeHeld", issued.grant.provider)], ids)
      for (const before of elsewhere) assert.deepStrictEqual(yield* ledger.show(before.id), before)
      const { operation: later } = yield* accept(issued.identity)
      assert.deepStrictEqual(yield* claimIds(issued.grant.provider), [later.id])
    }))
})

queueConformance("the outcome of a held operation that a status read finds", (it) => {
  for (const state of ["submitted", "succeeded", "failed", "indeterminate"] as const) {
    it.effect(`is recorded as ${state}, through submitting, and nothing is sent`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
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

  it.effect("is recorded in full or not at all", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id } = yield* heldOperation
      const before = yield* ledger.show(id)
      const inside = yield* inspect(id)
      // The first of its two transitions alone would be legal.
      for (const to of ["cancelled", "accepted", "submitting"] as const) {
        const exit = yield* Effect.exit(queue.recordHeld(id, 1, outcome(to), recording()))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), to)
        assert.deepStrictEqual(yield* ledger.show(id), before)
        assert.lengthOf(yield* ledger.history(id), 1)
        isAbout((yield* inspect(id)).due_in, Duration.millis(inside.due_in!))
      }
    }))

  it.effect("is not recorded for another revision, and therefore only once by concurrent callers", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
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
})
