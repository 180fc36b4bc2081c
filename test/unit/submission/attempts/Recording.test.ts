/**
 * The worker records an outcome once, and retries while the store is unavailable. The tests make the store fail on the
 * test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { acknowledged, away, makeWorld, reference, workFor } from "../../../fixtures/submission/World.ts"

describe("The record of an outcome", () => {
  it.effect("is retried until the store is back, and the operation is not sent again", () =>
    Effect.gen(function*() {
      let failures = 0
      const world = yield* makeWorld({
        queue: (queue) => ({
          record: (...args) => Effect.suspend(() => ++failures <= 5 ? away : queue.record(...args))
        })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, "1 minute")
      assert.strictEqual(yield* world.stateOf(id), "submitted")
      assert.strictEqual(failures, 6)
      assert.lengthOf(world.attempts, 1)
    }))

  it.effect("keeps no capacity: the next operation is sent before it is made", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        policy: { concurrency: 1, providerConcurrency: 1 },
        queue: (queue) => ({ record: (...args) => Effect.delay(queue.record(...args), "1 second") })
      })
      yield* world.acceptMany(2)
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("500 millis")
      assert.lengthOf(world.attempts, 2)
      yield* TestClock.adjust("3 seconds")
      yield* stop
    }))

  it.effect("is made once, even if the store's acknowledgement was lost", () =>
    Effect.gen(function*() {
      let calls = 0
      const world = yield* makeWorld({
        queue: (queue) => ({
          record: (...args) =>
            Effect.suspend(() =>
              ++calls === 1 ? Effect.andThen(Effect.orDie(queue.record(...args)), away) : queue.record(...args)
            )
        })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, "1 minute")
      assert.strictEqual(calls, 2)
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
    }))

  it.effect("after a rescue changes no state, and gives its reference to the status reader", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        submit: () => Effect.delay(Effect.succeed(acknowledged), "20 seconds")
      })
      const id = yield* world.acceptOne
      const fiber = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("10 seconds")
      const { revision } = yield* world.show(id)
      yield* Effect.orDie(world.ledger.transition(id, revision, { state: "indeterminate" }, { by: "rescuer" }))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "indeterminate"])
      assert.strictEqual(world.recordOf(id).reference, reference)
      yield* world.reconcile
      assert.deepStrictEqual(world.reads.map((read) => [read.id, read.reference]), [[id, reference]])
    }))

  it.effect("is logged only if it was recorded: a rescued operation has no failure", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => Effect.fail(new NotSent({ reason: "no connection" })) })
      const id = yield* world.acceptOne
      const fiber = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("1 milli")
      assert.lengthOf(world.attempts, 1)
      const { revision } = yield* world.show(id)
      yield* Effect.orDie(world.ledger.transition(id, revision, { state: "indeterminate" }, { by: "rescuer" }))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
      assert.lengthOf(world.attempts, 1)
      assert.isEmpty(world.logs.filter(({ message }) => message === "Operation failed"))
    }))

  it.effect("is abandoned when the claim is stale, and the rescuer takes over", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ queue: () => ({ record: () => away }) })
      const id = yield* world.acceptOne
      yield* workFor(world, Duration.sum(world.policy.rescueAfter, Duration.seconds(10)))
      assert.strictEqual(yield* world.stateOf(id), "submitting")
      yield* world.rescue
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
    }))
})
