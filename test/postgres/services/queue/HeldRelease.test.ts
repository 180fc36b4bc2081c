/**
 * A hold keeps an operation from being sent, it is released only when no process can still send the operation, and a late report of a
 * worker never ends it. The tests run against PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import type { DueRead } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import {
  accept,
  conformance,
  fieldsOf,
  PostgresLedger,
  queueConformance,
  unknownId
} from "../../../fixtures/ledger/Ledger.ts"
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
  reference,
  takeIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

queueConformance("the release of a held operation", (it) => {
  it.effect("is refused while another process can still send it; later it allows a claim, without a transition", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* heldOperation
      const refusal = Effect.map(Effect.flip(queue.release(id)), fieldsOf)
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", id, reason: "unexamined", until: null })
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      const until = read!.operation.send_before
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "sendable", until })
      yield* pass(Duration.subtract(readTerms.rescue_after, Duration.seconds(10)))
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "sendable" })
      assert.isTrue((yield* inspect(id)).is_held)
      assert.deepStrictEqual(yield* claimIds(provider), [])
      yield* pass("10 seconds")
      const released = yield* queue.release(id)
      assert.deepInclude(released, { state: "accepted", revision: 1, under_review: false })
      assert.deepStrictEqual(yield* ledger.show(id), released)
      const inside = yield* inspect(id)
      assert.deepInclude(inside, { send_before_in: null, is_held: false })
      isAbout(inside.due_in, Duration.zero)
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [])
      assert.deepStrictEqual(yield* claimIds(provider), [id])
    }))

  it.effect("is undone by the next change of the timeline; it may be repeated, and is refused once the operation has left accepted", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* heldOperation
      yield* waitOut(provider)
      yield* queue.release(id)
      const inside = yield* inspect(id)
      yield* pass("1 minute")
      const before = yield* ledger.show(id)
      assert.deepStrictEqual(yield* queue.release(id), before)
      assert.isBelow((yield* inspect(id)).due_in!, inside.due_in!, "a repeated release changes nothing")
      yield* failOver
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepInclude(fieldsOf(yield* Effect.flip(queue.release(id))), { _tag: "StillHeld", reason: "unexamined" })
      yield* waitOut(provider)
      yield* queue.release(id)
      assert.deepStrictEqual(yield* claimIds(provider), [id])
      const issued = yield* issueAtNewProvider()
      for (const state of specifiedStates.filter((state) => state !== "accepted")) {
        const before = yield* queued(issued, state)
        const error = yield* Effect.flip(queue.release(before.id))
        assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", from: state, reason: "only_held" })
        assert.deepStrictEqual(yield* ledger.show(before.id), before)
      }
    }))

  it.effect("is refused when the provider has acknowledged it, for every caller", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
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

  it.effect("by a status read is refused once the operation was released or held again: it may have been sent since", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
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

  it.effect("by a status read from before a later hold is refused, also once that hold was examined and waited out", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, provider } = yield* heldOperation
      const [before] = yield* queue.takeHeld(provider, 10, readTerms)
      yield* queue.holdAll
      yield* queue.takeHeld(provider, 10, readTerms)
      yield* pass("2 hours")
      const refusal = yield* Effect.flip(queue.releaseUnsent(id, before!.operation.send_before!))
      assert.strictEqual(refusal._tag, "StaleOperation")
      assert.deepStrictEqual(yield* claimIds(provider), [])
    }))

  it.effect("is not delayed by a status read that was taken before it", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
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

  it.effect("of all releases every held operation, returns their number, and changes no others", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
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

queueConformance("a late report of a worker", (it) => {
  it.effect("holds an operation whose claim a failover lost, also if it was released since", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { id, provider } = yield* heldOperation
      yield* waitOut(provider)
      yield* queue.release(id)
      yield* queue.report(id, null)
      assert.deepInclude(yield* ledger.show(id), { state: "accepted", revision: 1, under_review: true })
      assert.deepStrictEqual(yield* claimIds(provider), [])
      const [read] = yield* queue.takeHeld(provider, 10, readTerms)
      assert.deepInclude({ ...read! }, { state: "accepted", reference: null })
    }))

  it.effect("makes the status read of a rescued operation due at once, with the reference of the provider", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
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

  it.effect("changes no operation that another worker has claimed or that is settled", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      for (const state of ["submitting", "succeeded", "failed", "cancelled"] as const) {
        const { id } = yield* queued(issued, state)
        const before = [yield* ledger.show(id), (yield* inspect(id)).reference]
        yield* queue.report(id, reference("theirs"))
        assert.deepStrictEqual([yield* ledger.show(id), (yield* inspect(id)).reference], before)
      }
    }))
})

conformance("a hold of one operation", (it) => {
  it.effect("keeps it from being claimed until it is released, which needs no status read, and leaves the others alone", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const ledger = yield* OperationLedger
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation: before } = yield* accept(identity)
      const { operation: other } = yield* accept(identity)
      assert.deepStrictEqual(yield* queue.hold(before.id), before, "no transition, and no review yet")
      assert.isTrue((yield* inspect(before.id)).is_held)
      assert.deepStrictEqual(yield* claimIds(provider), [other.id])
      for (const _ of [1, 2]) {
        yield* pass("2 hours")
        assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [], "there is nothing to ask the provider")
        assert.isFalse((yield* ledger.show(before.id)).under_review, "only its age begins a review")
      }
      assert.deepInclude(yield* inspect(before.id), { reads: 0, send_before_in: null })
      yield* failOver
      yield* pass("2 hours")
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [before.id], "a claim may be lost")
      yield* pass("2 hours")
      yield* queue.release(before.id)
      yield* queue.hold(before.id)
      yield* queue.release(before.id)
      assert.isFalse((yield* inspect(before.id)).is_held)
      assert.deepStrictEqual(yield* claimIds(provider), [before.id])
    }))

  it.effect("keeps the examination of an operation that is held already, by a failover or by an operator", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      for (const repeat of [Effect.void, queue.holdAll]) {
        const { id, provider } = yield* heldOperation
        yield* repeat
        yield* waitOut(provider)
        const before = [yield* ledger.show(id), (yield* inspect(id)).reads]
        assert.deepStrictEqual([yield* queue.hold(id), (yield* inspect(id)).reads], before)
        yield* queue.release(id)
        assert.deepStrictEqual(yield* claimIds(provider), [id])
      }
    }))

  it.effect("is refused for an operation in any other state, and for an unknown one", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      for (const state of specifiedStates.filter((state) => state !== "accepted")) {
        const before = yield* queued(issued, state)
        const error = yield* Effect.flip(queue.hold(before.id))
        assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", from: state, reason: "only_accepted" })
        assert.include((error as Error).message, `is ${state}: only accepted operations can be held`)
        assert.deepStrictEqual(yield* ledger.show(before.id), before)
        assert.isFalse((yield* inspect(before.id)).is_held)
      }
      assert.strictEqual((yield* Effect.flip(queue.hold(unknownId)))._tag, "OperationNotFound")
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("a hold of one operation in PostgreSQL", (it) => {
  it.effect("waits for an open claim of the same row, and is refused once that commits", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const held = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("UPDATE operations SET state = 'submitting', revision = 2 WHERE id = $1", [id])
        const hold = yield* Effect.forkScoped(
          Effect.flatMap(Queue, (queue) => Effect.result(queue.hold(id))).pipe(Effect.provide(anotherProcess()))
        )
        yield* untilWaiting(1)
        yield* run("COMMIT")
        return yield* Fiber.join(hold)
      }))
      assert.strictEqual(held._tag === "Failure" && held.failure._tag, "IllegalTransition")
    }))
})
