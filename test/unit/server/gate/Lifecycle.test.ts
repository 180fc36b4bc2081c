/**
 * Slots, deadlines and the shutdown of running requests, under a test clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Fiber, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import { isOverdue, Lifecycle, type LifecycleOptions } from "../../../../src/server/gate/Lifecycle.ts"

const make = (options: Partial<LifecycleOptions>) =>
  Effect.map(Layer.build(Lifecycle.layer(options)), (context) => Context.get(context, Lifecycle))

/** A request that runs until it is interrupted; refused if it gets no slot. */
const serve = (lifecycle: Lifecycle["Service"], client?: string) =>
  Effect.withFiber((fiber): Effect.Effect<never, "refused"> => {
    const request = lifecycle.admit(fiber)
    if (request === null) return Effect.fail("refused")
    const admitted = client === undefined || lifecycle.admitClient(request, client)
    const run = admitted ? Effect.never : Effect.fail("refused" as const)
    return Effect.ensuring(run, Effect.sync(() => lifecycle.leave(request)))
  })

const start = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

const isRunning = (fiber: Fiber.Fiber<unknown, unknown>) => fiber.pollUnsafe() === undefined

const isTimedOut = (fiber: Fiber.Fiber<unknown, unknown>) => {
  const exit = fiber.pollUnsafe()
  return exit !== undefined && Exit.isFailure(exit) && isOverdue(exit.cause)
}

describe("The deadline", () => {
  it.effect.prop(
    "interrupts each request when its time is up, and no other",
    [Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 700 }))).check(Schema.isMaxLength(12))],
    ([pauses]) =>
      Effect.gen(function*() {
        const deadline = 1000
        const lifecycle = yield* make({ deadline })
        const requests: Array<{ readonly startedAt: number; readonly fiber: Fiber.Fiber<never, "refused"> }> = []
        let now = 0
        const check = () => {
          for (const { fiber, startedAt } of requests) {
            assert.strictEqual(isRunning(fiber), now < startedAt + deadline)
            assert.strictEqual(isTimedOut(fiber), now >= startedAt + deadline)
          }
        }
        for (const pause of [...pauses, 999, 1]) {
          requests.push({ startedAt: now, fiber: yield* start(serve(lifecycle)) })
          yield* TestClock.adjust(pause)
          now += pause
          check()
        }
      })
  )

  it.live("holds while the wall clock steps back", () =>
    Effect.gen(function*() {
      const clock = yield* Clock.Clock
      let step = 0
      const stepping: Clock.Clock = Object.assign(Object.create(clock), {
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + step
      })
      const lifecycle = yield* Effect.provideService(make({ deadline: 20 }), Clock.Clock, stepping)
      const before = yield* start(serve(lifecycle))
      step = -3_600_000
      const after = yield* start(serve(lifecycle))
      yield* Fiber.await(before)
      yield* Fiber.await(after)
      assert.deepStrictEqual([before, after].map(isTimedOut), [true, true])
    }))

  it.effect("interrupts no request that ended before", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 1000, maxInFlight: 1 })
      const ended = yield* start(serve(lifecycle))
      yield* Fiber.interrupt(ended)
      assert.isFalse(isTimedOut(ended))
      yield* TestClock.adjust(500)
      const running = yield* start(serve(lifecycle))
      yield* TestClock.adjust(999)
      assert.isTrue(isRunning(running))
      yield* TestClock.adjust(1)
      assert.isTrue(isTimedOut(running))
    }))
})

describe("The slots", () => {
  it.effect("are freed once, whether a request is interrupted by its deadline or from outside", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 1000, maxInFlight: 3, maxInFlightPerClient: 2 })
      for (let round = 0; round < 3; round++) {
        const [one, two] = [yield* start(serve(lifecycle, "a")), yield* start(serve(lifecycle, "a"))]
        // The client has no slot left; the process has one.
        assert.strictEqual(yield* Effect.flip(serve(lifecycle, "a")), "refused")
        const other = yield* start(serve(lifecycle, "b"))
        assert.isTrue([one, two, other].every(isRunning))
        assert.strictEqual(yield* Effect.flip(serve(lifecycle, "b")), "refused")
        yield* Fiber.interrupt(one)
        yield* TestClock.adjust(1000)
        assert.isTrue([two, other].every(isTimedOut))
      }
    }))
})

describe("The drain", () => {
  it.effect("ends with the last running request", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 60_000, drainTimeout: 10_000 })
      const requests = [yield* start(serve(lifecycle)), yield* start(serve(lifecycle))]
      const drain = yield* start(lifecycle.drain)
      assert.strictEqual(yield* Effect.flip(serve(lifecycle)), "refused")
      yield* Fiber.interrupt(requests[0]!)
      yield* TestClock.adjust(9_999)
      assert.isTrue(isRunning(drain))
      yield* Fiber.interrupt(requests[1]!)
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(drain)))
    }))

  it.effect("interrupts all that still run after its timeout, and not because of their deadline", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 60_000, drainTimeout: 10_000 })
      const requests = [yield* start(serve(lifecycle)), yield* start(serve(lifecycle)), yield* start(serve(lifecycle))]
      const drain = yield* start(lifecycle.drain)
      yield* TestClock.adjust(9_999)
      assert.isTrue(requests.every(isRunning))
      yield* TestClock.adjust(1)
      yield* Fiber.await(drain)
      for (const request of requests) assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(request)))
      assert.isFalse(requests.some(isTimedOut))
      assert.isTrue(lifecycle.isDraining())
    }))
})
