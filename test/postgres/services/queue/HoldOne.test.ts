/**
 * An operator holds one accepted operation, as `holdAll` holds all of them. The tests run against PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { accept, conformance, fieldsOf, PostgresLedger, unknownId } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimIds,
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  takeIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

conformance("a hold of one operation", (it) => {
  it.effect("keeps it from being claimed and cancelled until it was examined and released, and leaves the others alone", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation: before } = yield* accept(identity)
      const { operation: other } = yield* accept(identity)
      assert.deepStrictEqual(yield* queue.hold(before.id), before, "no transition, and no review yet")
      assert.isTrue((yield* inspect(before.id)).is_held)
      assert.deepStrictEqual(yield* claimIds(provider), [other.id])
      const cancellation = fieldsOf(yield* Effect.flip(ledger.cancel(before.id, null)))
      assert.deepInclude(cancellation, { _tag: "IllegalTransition", reason: "held" })
      const refusal = Effect.map(Effect.flip(queue.release(before.id)), fieldsOf)
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "unexamined" })
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [before.id])
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "sendable" })
      yield* pass(readTerms.rescue_after)
      yield* queue.release(before.id)
      yield* queue.hold(before.id)
      isAbout((yield* inspect(before.id)).due_in, Duration.zero)
      assert.deepInclude(yield* refusal, { _tag: "StillHeld", reason: "unexamined" }, "the examination before is over")
      yield* waitOut(provider)
      yield* queue.release(before.id)
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
