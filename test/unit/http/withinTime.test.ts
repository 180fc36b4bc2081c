/** A time limit takes the place of an effect that is late, and leaves no effect and no timer behind. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Duration, Effect, Exit, Fiber, Scheduler } from "effect"
import { TestClock } from "effect/testing"
import { withinTime } from "../../../src/http/exchangeLimits.ts"

const duration = Duration.seconds(1)
const late = { duration, orElse: () => Effect.succeed("late") }
const lateDetached = { ...late, isDetached: true }

/** An effect without an end, and how often it began and was interrupted. */
const endless = () => {
  const seen = { begun: 0, interrupted: 0 }
  const effect = Effect.suspend(() => {
    seen.begun++
    return Effect.onInterrupt(Effect.never, () => Effect.sync(() => seen.interrupted++))
  })
  return { seen, effect }
}

/** Runs an effect on a clock that counts sleeps: those that began, and those that go on. */
const countingSleeps = <A, E>(effect: (sleeps: { begun: number; open: number }) => Effect.Effect<A, E>) =>
  Effect.clockWith((clock) => {
    const sleeps = { begun: 0, open: 0 }
    // The rest is the clock of the test, which the test still adjusts.
    const counted: Clock.Clock = Object.assign(Object.create(clock) as Clock.Clock, {
      sleep: (duration: Duration.Duration) =>
        Effect.suspend(() => {
          sleeps.begun++
          sleeps.open++
          return Effect.ensuring(clock.sleep(duration), Effect.sync(() => sleeps.open--))
        })
    })
    return Effect.provideService(effect(sleeps), Clock.Clock, counted)
  })

describe("withinTime", () => {
  it.effect("starts no timer for an effect that ends at once", () =>
    countingSleeps((sleeps) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* withinTime(Effect.succeed("value"), late), "value")
        assert.deepStrictEqual(yield* Effect.exit(withinTime(Effect.fail("error"), lateDetached)), Exit.fail("error"))
        assert.strictEqual(yield* withinTime(Effect.sync(() => "value"), late), "value")
        const failing = Effect.suspend(() => Effect.fail("error"))
        assert.deepStrictEqual(yield* Effect.exit(withinTime(failing, lateDetached)), Exit.fail("error"))
        assert.deepStrictEqual(sleeps, { begun: 0, open: 0 })
      })
    ))

  it("starts no fiber for an effect that has already ended", () => {
    for (const end of [Exit.succeed("value"), Exit.fail("error")]) assert.strictEqual(withinTime(end, late), end)
  })

  for (const [name, limit] of [["attached", late], ["detached", lateDetached]] as const) {
    describe(name, () => {
      it.effect("returns the end of an effect that is in time, and stops the timer", () =>
        countingSleeps((sleeps) =>
          Effect.gen(function*() {
            const ends = [Exit.succeed("value"), Exit.fail("error"), Exit.die("defect"), Exit.interrupt(7)]
            for (const end of ends) {
              const first = yield* Deferred.make<string, string>()
              const fiber = yield* Effect.forkChild(withinTime(Deferred.await(first), limit))
              yield* TestClock.adjust(Duration.millis(999))
              yield* Deferred.done(first, end)
              assert.deepStrictEqual(yield* Fiber.await(fiber), end)
            }
            yield* Effect.yieldNow
            assert.deepStrictEqual(sleeps, { begun: ends.length, open: 0 })
          })
        ))

      it.effect("interrupts a late effect once, and goes on with the other one", () =>
        Effect.gen(function*() {
          const { effect, seen } = endless()
          const fiber = yield* Effect.forkChild(withinTime(effect, limit))
          yield* TestClock.adjust(Duration.millis(999))
          assert.isUndefined(fiber.pollUnsafe())
          assert.deepStrictEqual(seen, { begun: 1, interrupted: 0 })
          yield* TestClock.adjust(Duration.millis(1))
          assert.strictEqual(yield* Fiber.join(fiber), "late")
          assert.deepStrictEqual(seen, { begun: 1, interrupted: 1 })
        }))

      it.effect("interrupts a late effect also for a caller that cannot be interrupted", () =>
        Effect.gen(function*() {
          const { effect, seen } = endless()
          const fiber = yield* Effect.forkChild(Effect.uninterruptible(withinTime(effect, limit)))
          yield* TestClock.adjust(duration)
          assert.strictEqual(yield* Fiber.join(fiber), "late")
          assert.strictEqual(seen.interrupted, 1)
        }))

      it.effect("interrupts the effect and the timer with the caller, after any number of its steps", () =>
        countingSleeps((sleeps) =>
          Effect.gen(function*() {
            let unbegun = 0
            for (let steps = 0; steps < 12; steps++) {
              const { effect, seen } = endless()
              // The caller and the effect yield after every few steps.
              const fiber = yield* Effect.forkDetach(withinTime(effect, limit)).pipe(
                Effect.provideService(Scheduler.MaxOpsBeforeYield, 4)
              )
              for (let step = 0; step < steps; step++) yield* Effect.yieldNow
              yield* Fiber.interrupt(fiber)
              yield* Effect.yieldNow
              assert.strictEqual(seen.interrupted, seen.begun, `after ${steps} steps`)
              if (seen.begun === 0) unbegun++
            }
            for (let step = 0; step < 100; step++) yield* Effect.yieldNow
            assert.strictEqual(sleeps.open, 0)
            assert.isAbove(unbegun, 0, "some callers were interrupted before the effect began")
            assert.isBelow(unbegun, 12, "and some after that")
          })
        ))

      it.effect("gives the effect the services of its caller", () =>
        Effect.gen(function*() {
          class Name extends Context.Service<Name, string>()("test/Name") {}
          const name = withinTime(Effect.andThen(Effect.sleep(1), Name), limit)
          const fiber = yield* Effect.forkChild(Effect.provideService(name, Name, "the caller"))
          yield* TestClock.adjust(1)
          assert.strictEqual(yield* Fiber.join(fiber), "the caller")
        }))
    })
  }

  it.effect("waits for the end of an effect that cannot be interrupted, unless it is detached", () =>
    Effect.gen(function*() {
      const end = yield* Deferred.make<string>()
      const stubborn = Effect.uninterruptible(Deferred.await(end))
      const attached = yield* Effect.forkChild(withinTime(stubborn, late))
      const detached = yield* Effect.forkChild(withinTime(stubborn, lateDetached))
      const interrupted = yield* Effect.forkChild(withinTime(stubborn, lateDetached))
      yield* TestClock.adjust(Duration.millis(1))
      yield* Fiber.interrupt(interrupted)
      yield* TestClock.adjust(duration)
      assert.strictEqual(yield* Fiber.join(detached), "late")
      const stopping = yield* Effect.forkChild(Fiber.interrupt(attached))
      yield* TestClock.adjust(Duration.hours(1))
      assert.isUndefined(attached.pollUnsafe(), "its scope must not close while it runs")
      yield* Deferred.succeed(end, "end")
      yield* Fiber.join(stopping)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(attached)))
    }))
})
