/**
 * A worker that is asked to stop finishes its submissions within its timeouts. The tests stop it on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { acknowledged, away, makeWorld, neverOpen, type World } from "../../../fixtures/submission/World.ts"

const drainTimeout = Duration.seconds(10)

const stopLines = ({ logs }: World) =>
  logs.filter(({ message }) => message === "Stopped").map((line) => line.annotations)

/** Stops the worker and yields the time that this took, in milliseconds. */
const timed = (stop: Effect.Effect<void>) =>
  Effect.gen(function*() {
    const from = yield* Clock.currentTimeMillis
    yield* stop
    return (yield* Clock.currentTimeMillis) - from
  })

describe("A worker that is asked to stop", () => {
  it.effect("waits for running submissions, and for nothing else, and claims nothing more", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => Effect.delay(Effect.succeed(acknowledged), "5 seconds") })
      const ids = yield* world.acceptMany(3)
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(timed(stop))
      yield* TestClock.adjust("1 second")
      const late = yield* world.acceptOne
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(stopping), 4000)
      assert.strictEqual(yield* world.stateOf(late), "accepted")
      for (const id of ids) assert.strictEqual(yield* world.stateOf(id), "submitted")
      assert.deepStrictEqual(stopLines(world), [{ finished: 3, returned: 0, interrupted: 0 }])
    }))

  it.effect("records submissions that are unfinished at the drain timeout as indeterminate", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ policy: { drainTimeout }, submit: () => Effect.never })
      const id = yield* world.acceptOne
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(timed(stop))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(stopping), Duration.toMillis(drainTimeout))
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "indeterminate"])
      assert.deepStrictEqual(yield* world.evidenceOf(id), {
        by: "submission",
        reason: "the worker was stopped while it was sending"
      })
      assert.deepStrictEqual(stopLines(world), [{ finished: 0, returned: 0, interrupted: 1 }])
    }))

  it.effect("returns operations that wait between two attempts, and another worker sends them", () =>
    Effect.gen(function*() {
      let isDown = true
      const world = yield* makeWorld({
        circuit: neverOpen,
        submit: () =>
          Effect.suspend(() =>
            isDown ? Effect.fail(new NotSent({ reason: "connection refused" })) : Effect.succeed(acknowledged)
          )
      })
      const id = yield* world.acceptOne
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("10 seconds")
      const before = world.attempts.length
      assert.strictEqual(yield* timed(stop), 0)
      assert.strictEqual(world.attempts.length, before)
      assert.strictEqual(
        world.recordOf(id).return_reason,
        "the worker was stopped between two attempts; nothing was sent: connection refused"
      )
      assert.deepStrictEqual(stopLines(world), [{ finished: 0, returned: 1, interrupted: 0 }])
      isDown = false
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
      assert.lengthOf(world.attempts, before + 1)
    }))

  it.effect("still sends the operations that it is claiming", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        queue: (queue) => ({ claim: (...args) => Effect.tap(queue.claim(...args), Effect.sleep("2 seconds")) })
      })
      const ids = yield* world.acceptMany(3)
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(stop)
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(stopping)
      assert.sameMembers(world.attempts.map(({ id }) => id), ids)
      for (const id of ids) assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  it.effect("waits for a hanging claim no longer than the store timeout", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ queue: () => ({ claim: () => Effect.never }) })
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(timed(stop))
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* Fiber.join(stopping), Duration.toMillis(world.policy.storeTimeout))
    }))

  it.effect("waits for an unavailable store no longer than for a submission", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ policy: { drainTimeout }, queue: () => ({ record: () => away }) })
      const id = yield* world.acceptOne
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("2 seconds")
      const stopping = yield* Effect.forkChild(timed(stop))
      yield* TestClock.adjust("5 minutes")
      const longest = Duration.sum(Duration.sum(drainTimeout, world.policy.storeTimeout), Duration.seconds(3))
      assert.isAtMost(yield* Fiber.join(stopping), Duration.toMillis(longest))
      // The rescuer takes it over.
      assert.strictEqual(yield* world.stateOf(id), "submitting")
    }))
})
