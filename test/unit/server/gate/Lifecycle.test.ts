/**
 * Slots, deadlines and the shutdown of requests, running and waiting, under a test clock. Random requests run beside a model.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Fiber, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { isOverdue, Lifecycle, type LifecycleOptions } from "../../../../src/server/gate/Lifecycle.ts"
import type { RunningRequest } from "../../../../src/server/gate/RunningRequests.ts"
import { skewedClock } from "../../../fixtures/SkewedClock.ts"

const make = (options: Partial<LifecycleOptions>) =>
  Effect.map(Layer.build(Lifecycle.layer(options)), (context) => Context.get(context, Lifecycle))

type Service = Lifecycle["Service"]

/** A request that runs until it is interrupted; refused if it gets no slot. */
const serve = (lifecycle: Service, begin: (request: RunningRequest) => void = () => {}) =>
  Effect.withFiber((fiber): Effect.Effect<never, "refused"> => {
    const request = lifecycle.admit(fiber)
    if (request === null) return Effect.fail("refused")
    begin(request)
    return Effect.ensuring(Effect.never, Effect.sync(() => lifecycle.leave(request)))
  })

const start = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

const isRunning = (fiber: Fiber.Fiber<unknown, unknown>) => fiber.pollUnsafe() === undefined

const isTimedOut = (fiber: Fiber.Fiber<unknown, unknown>) => {
  const exit = fiber.pollUnsafe()
  return exit !== undefined && Exit.isFailure(exit) && isOverdue(exit.cause)
}

describe("The deadline", () => {
  const Step = Schema.Struct({
    pause: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 700 })),
    /** Whether the oldest request leaves. */
    leaves: Schema.Boolean
  })

  it.effect.prop(
    "interrupts each request when its time is up, and no other, also after others have left",
    [Schema.Array(Step).check(Schema.isMaxLength(12))],
    ([steps]) =>
      Effect.gen(function*() {
        const deadline = 1000
        const lifecycle = yield* make({ deadline })
        const requests: Array<{ readonly startedAt: number; readonly fiber: Fiber.Fiber<never, "refused"> }> = []
        let now = 0
        for (const { leaves, pause } of [...steps, ...[999, 1].map((pause) => ({ pause, leaves: false }))]) {
          requests.push({ startedAt: now, fiber: yield* start(serve(lifecycle)) })
          if (leaves) yield* Fiber.interrupt(requests.shift()!.fiber)
          yield* TestClock.adjust(pause)
          now += pause
          for (const { fiber, startedAt } of requests) {
            assert.strictEqual(isRunning(fiber), now < startedAt + deadline)
            assert.strictEqual(isTimedOut(fiber), now >= startedAt + deadline)
          }
        }
      })
  )

  it.live("holds while the wall clock steps back", () =>
    Effect.gen(function*() {
      const clock = skewedClock()
      const lifecycle = yield* Effect.updateService(make({ deadline: 20 }), Clock.Clock, clock.over)
      const before = yield* start(serve(lifecycle))
      clock.skew = -3_600_000
      const after = yield* start(serve(lifecycle))
      yield* Fiber.await(before)
      yield* Fiber.await(after)
      assert.deepStrictEqual([before, after].map(isTimedOut), [true, true])
    }))
})

const noWake = () => {}

const limits = { maxInFlight: 4, maxInFlightPerClient: 3, maxWaiting: 3, maxWaitingPerClient: 2 }

const clients = ["a", "b"] as const

/** How many requests of the client can run now, and how many of them can wait. */
const room = (lifecycle: Service, fiber: Fiber.Fiber<unknown, unknown>, client: string) => {
  const admitted: Array<RunningRequest> = []
  for (;;) {
    const request = lifecycle.admit(fiber)
    if (request === null) break
    admitted.push(request)
    if (!lifecycle.admitClient(request, client)) break
  }
  const runs = admitted.filter((request) => request.client !== null)
  const waits = runs.filter((request) => lifecycle.park(request, noWake))
  for (const request of admitted) lifecycle.leave(request)
  return { runs: runs.length, waits: waits.length }
}

/** A request of the model: running, or parked. */
interface Modelled {
  readonly request: RunningRequest
  readonly client: string
  isParked: boolean
  isWaiting: boolean
}

const roomOf = (all: ReadonlyArray<Modelled>, client: string) => {
  const running = all.filter(({ isParked }) => !isParked)
  const waiting = all.filter(({ isWaiting }) => isWaiting)
  const of = (some: ReadonlyArray<Modelled>) => some.filter((one) => one.client === client).length
  const { maxInFlight, maxInFlightPerClient, maxWaiting, maxWaitingPerClient } = limits
  const runs = Math.max(0, Math.min(maxInFlight - running.length, maxInFlightPerClient - of(running)))
  return { runs, waits: Math.min(runs, maxWaiting - waiting.length, maxWaitingPerClient - of(waiting)) }
}

const step = fc.record({
  action: fc.constantFrom("come", "come", "park", "park", "resume", "leave", "overdue"),
  client: fc.constantFrom(...clients),
  at: fc.nat()
})

describe("The slots", () => {
  it.effect("are counted exactly, in any order of coming, waiting, reading again and leaving", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.fiber
      const lifecycle = yield* make(limits)
      fc.assert(fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let all: Array<Modelled> = []
        for (const { action, at, client } of steps) {
          const those = all.filter(({ isParked }) => isParked === (action === "resume"))
          const one = action === "leave" ? all[at % all.length] : those[at % those.length]
          if (action === "come") {
            const free = roomOf(all, client).runs > 0
            const request = lifecycle.admit(fiber)
            const isIn = request !== null && lifecycle.admitClient(request, client)
            assert.strictEqual(isIn, free)
            if (isIn) all.push({ request, client, isParked: false, isWaiting: false })
            else if (request !== null) lifecycle.leave(request)
          } else if (one !== undefined && action === "park") {
            const waiting = all.filter(({ isWaiting }) => isWaiting)
            const free = one.isWaiting || (waiting.length < limits.maxWaiting
              && waiting.filter((other) => other.client === one.client).length < limits.maxWaitingPerClient)
            assert.strictEqual(lifecycle.park(one.request, noWake), free)
            if (free) one.isParked = one.isWaiting = true
          } else if (one !== undefined && action === "resume") {
            lifecycle.resume(one.request)
            one.isParked = false
          } else if (one !== undefined && action === "leave") {
            lifecycle.leave(one.request)
            all = all.filter((other) => other !== one)
          }
          for (const each of clients) assert.deepStrictEqual(room(lifecycle, fiber, each), roomOf(all, each))
        }
        for (const { request } of all) lifecycle.leave(request)
        for (const each of clients) assert.deepStrictEqual(room(lifecycle, fiber, each), roomOf([], each))
      }))
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

  it.effect("interrupts all that still run, wait or receive a body after its timeout, and not because of their deadline", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 60_000, drainTimeout: 10_000 })
      const requests = [
        yield* start(serve(lifecycle)),
        yield* start(serve(lifecycle, (request) => void lifecycle.park(request, noWake))),
        yield* start(serve(lifecycle, lifecycle.pause))
      ]
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

/** A request that waits until it is woken, then reads until it is interrupted. */
const serveWait = (lifecycle: Service, seen: { request?: RunningRequest; woken: number }) =>
  Effect.withFiber((fiber) => {
    const request = lifecycle.admit(fiber)!
    seen.request = request
    return Effect.ensuring(
      Effect.sync(() => lifecycle.park(request, () => seen.woken++)).pipe(Effect.andThen(Effect.never)),
      Effect.sync(() => lifecycle.leave(request))
    )
  })

describe("A request that waits", () => {
  it.effect("has no deadline, and a whole one once it reads again", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 1000 })
      const seen: { request?: RunningRequest; woken: number } = { woken: 0 }
      const fiber = yield* start(serveWait(lifecycle, seen))
      yield* TestClock.adjust(60_000)
      assert.isTrue(isRunning(fiber))
      lifecycle.resume(seen.request!)
      yield* TestClock.adjust(999)
      assert.isTrue(isRunning(fiber))
      yield* TestClock.adjust(1)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && isOverdue(exit.cause))
    }))

  it.effect("is woken when the shutdown begins, at once if it has begun, and the drain waits for it", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ deadline: 60_000, drainTimeout: 10_000 })
      const [early, late] = [{ woken: 0 }, { woken: 0 }] as Array<{ request?: RunningRequest; woken: number }>
      const waiting = yield* start(serveWait(lifecycle, early!))
      const running = lifecycle.admit(yield* Effect.fiber)!
      const drain = yield* start(lifecycle.drain)
      assert.strictEqual(early!.woken, 1)
      lifecycle.park(running, () => late!.woken++)
      assert.strictEqual(late!.woken, 1)
      yield* Fiber.interrupt(waiting)
      yield* TestClock.adjust(9_999)
      assert.isTrue(isRunning(drain))
      lifecycle.leave(running)
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(drain)))
    }))

  it.effect("can neither wait nor take slots once it ended, although work of it still runs", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ maxInFlight: 1, maxWaiting: 1 })
      const fiber = yield* start(Effect.never)
      const request = lifecycle.admit(fiber)!
      assert.isTrue(lifecycle.admitClient(request, "a"))
      lifecycle.leave(request)
      assert.isFalse(lifecycle.park(request, noWake))
      lifecycle.resume(request)
      assert.deepStrictEqual(room(lifecycle, fiber, "a"), { runs: 1, waits: 1 })
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("of a request whose body arrives have no deadline, and a whole one from then on", () =>
    Effect.gen(function*() {
      const lifecycle = yield* make({ ...limits, deadline: 100 })
      const requested: { request: RunningRequest | null } = { request: null }
      const fiber = yield* start(Effect.withFiber<never>((fiber) => {
        requested.request = lifecycle.admit(fiber)
        return Effect.never
      }))
      const request = requested.request!
      yield* TestClock.adjust(50)
      lifecycle.pause(request)
      yield* TestClock.adjust(1000)
      assert.isTrue(isRunning(fiber))
      assert.isNull(lifecycle.proceed(request))
      yield* TestClock.adjust(99)
      assert.isTrue(isRunning(fiber))
      yield* TestClock.adjust(1)
      assert.isFalse(isRunning(fiber))
      lifecycle.leave(request)
    }))
})
