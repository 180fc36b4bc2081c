/**
 * Worker and reconciler keep the limit of a provider, and the pauses that it asks for. The tests use the ledger in memory and the
 * test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Logger, References } from "effect"
import { TestClock } from "effect/testing"
import type { OperationState } from "../../../../src/domain/Operation.ts"
import type { ProviderLimit } from "../../../../src/domain/ProviderLimit.ts"
import type { SubmissionQueue } from "../../../../src/services/queue/SubmissionQueue.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import {
  NotSent,
  ProviderAdapter,
  StatusAnswer,
  Uncertain
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import { RequestPermits } from "../../../../src/submission/providers/RequestPermits.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { InMemoryLedger } from "../../../fixtures/ledger/Ledger.ts"
import { type Queue, queueContext, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import {
  acknowledged,
  away,
  bank,
  makeWorld,
  neverOpen,
  type Script,
  until,
  workFor
} from "../../../fixtures/submission/World.ts"

const tenPerSecond: ProviderLimit = { requests: 10, interval: "1 second" }

const refuse = (retryAfter?: Duration.Duration) =>
  Effect.fail(
    new NotSent({ reason: "status 429", isRefused: true, ...retryAfter === undefined ? {} : { retryAfter } })
  )

/** One provider with this limit, which gets no request. */
const providersWith = (limit: ProviderLimit) => {
  const adapter = ProviderAdapter.of({ limit, submit: () => Effect.die(null), readStatus: () => Effect.die(null) })
  return Providers.layer({ bank: Layer.succeed(ProviderAdapter, adapter) })
}

const permitsOf = <E>(limit: ProviderLimit, queue: Layer.Layer<SubmissionQueue, E>) =>
  Effect.map(
    Layer.build(Layer.provide(RequestPermits.layer, [queue, providersWith(limit)])),
    (services) => Context.get(services, RequestPermits)
  )

/** The most instants within a second. */
const mostInASecond = (instants: ReadonlyArray<number>): number =>
  Math.max(0, ...instants.map((from) => instants.filter((at) => at >= from && at <= from + 1000).length))

/** Counts the statements about limits. */
const counting = () => {
  const calls = { reservePermits: 0, openPermits: 0, closeProvider: 0 }
  const queue = (inner: Queue): Partial<Queue> => ({
    reservePermits: (...args) => Effect.suspend(() => (calls.reservePermits++, inner.reservePermits(...args))),
    openPermits: (...args) => Effect.suspend(() => (calls.openPermits++, inner.openPermits(...args))),
    closeProvider: (...args) => Effect.suspend(() => (calls.closeProvider++, inner.closeProvider(...args)))
  })
  return { calls, queue }
}

describe("a provider with a limit", () => {
  it.effect("gets no more requests than that in a second, all submissions in the end, and status reads do not starve", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ limit: tenPerSecond })
      yield* world.acceptMany(60)
      yield* world.start(Layer.merge(SubmissionWorker.layer, Reconciler.layer))
      for (let step = 0; step < 1000; step++) yield* TestClock.adjust(10)
      const submissions = world.attempts.map(({ at }) => at)
      const reads = world.reads.map(({ at }) => at)
      assert.isAtMost(mostInASecond([...submissions, ...reads]), 10)
      assert.isAtLeast(reads.length, 10)
      assert.lengthOf(submissions, 60)
    }))

  it.effect("gets nothing while the database reserves no permits: the claim is returned", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ limit: tenPerSecond, queue: () => ({ reservePermits: () => away }) })
      const id = yield* world.acceptOne
      yield* workFor(world, "1 minute")
      assert.isEmpty(world.attempts)
      assert.strictEqual(yield* world.stateOf(id), "submitting")
      assert.strictEqual(
        world.recordOf(id).return_reason,
        "the database did not reserve a permit of the provider's limit"
      )
    }))

  it.effect("gets no request that is later than its permit by more than half of the slack: it reserves another permit", () =>
    Effect.gen(function*() {
      let delay = 60
      const { calls, queue } = counting()
      const world = yield* makeWorld({
        limit: tenPerSecond,
        queue: (inner) => {
          const { reservePermits } = queue(inner)
          return {
            // The answer of the database takes longer than half of the slack of 100 ms, once.
            reservePermits: (...args) =>
              Effect.flatMap(reservePermits!(...args), (permits) => {
                const wait = delay
                delay = 0
                return Effect.as(Effect.sleep(wait), permits)
              })
          }
        }
      })
      yield* world.acceptOne
      yield* workFor(world, "5 seconds")
      assert.strictEqual(calls.reservePermits, 2)
      assert.strictEqual(world.attempts.length, 1)
    }))

  it.effect("gets an operation whose authorization is older than storeTimeout only after the worker asked again", () =>
    Effect.gen(function*() {
      const asked: Array<number> = []
      const clock = yield* TestClock.testClockWith((clock) => Effect.succeed(clock))
      const world = yield* makeWorld({
        limit: { requests: 1, interval: "10 seconds" },
        queue: (inner) => ({
          mayStillSend: (claim) =>
            Effect.suspend(() => {
              asked.push(clock.currentTimeMillisUnsafe())
              return inner.mayStillSend(claim)
            })
        })
      })
      yield* world.acceptMany(2)
      const fiber = yield* Effect.forkChild(world.work)
      for (let step = 0; step < 200; step++) yield* TestClock.adjust(100)
      yield* Fiber.join(fiber)
      const [first, second] = world.attempts
      assert.isAbove(second!.at - first!.at, 10_000)
      assert.isTrue(asked.some((at) => at > second!.at - 5000 && at <= second!.at))
    }))

  it.effect("gets no operation whose authorization ended while a slow statement reserved its permit", () =>
    Effect.gen(function*() {
      let delay = 2000
      const world = yield* makeWorld({
        limit: { requests: 10, interval: "1 minute", slack: "30 seconds" },
        queue: (inner) => ({
          // The claim is 4 s old when the worker asks for a permit, and 6 s when it has one.
          claim: (...args) => Effect.tap(inner.claim(...args), () => Effect.sleep(4000)),
          reservePermits: (...args) =>
            Effect.suspend(() => {
              const wait = delay
              delay = 0
              return Effect.delay(inner.reservePermits(...args), wait)
            })
        })
      })
      const id = yield* world.acceptOne
      const fiber = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("5 seconds")
      yield* world.grants.revoke(world.grant.grant_id)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(fiber)
      assert.isEmpty(world.attempts)
      assert.strictEqual(yield* world.stateOf(id), "failed")
    }))

  it.effect("gets no status read while the database reserves no permits", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        limit: tenPerSecond,
        queue: (inner) => ({
          reservePermits: (provider, demand, terms) =>
            demand.reads > 0 ? away : inner.reservePermits(provider, demand, terms)
        })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, "1 second")
      assert.strictEqual(yield* world.stateOf(id), "submitted")
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* world.reconcile, 1)
      assert.isEmpty(world.reads)
    }))

  it.effect("is asked for a status after the first delay if there was no permit, however often it was asked before", () =>
    Effect.gen(function*() {
      let isAway = false
      const world = yield* makeWorld({
        limit: tenPerSecond,
        queue: (inner) => ({
          reservePermits: (...args) => isAway ? away : inner.reservePermits(...args)
        })
      })
      yield* world.acceptOne
      yield* workFor(world, "1 second")
      const reconcile = Effect.andThen(TestClock.adjust("2 hours"), world.reconcile)
      for (let read = 0; read < 10; read++) yield* reconcile
      isAway = true
      yield* reconcile
      isAway = false
      yield* TestClock.adjust("2 seconds")
      yield* world.reconcile
      assert.lengthOf(world.reads, 11)
    }))

  it.effect("returns the claims of operations that have no permit until sendWithin", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ limit: { requests: 1, interval: "1 hour" } })
      yield* world.acceptMany(2)
      yield* workFor(world, "1 minute")
      assert.strictEqual(world.attempts.length, 1)
      const reasons = [...world.memory.operations.values()].map(({ return_reason }) => return_reason)
      assert.sameMembers(reasons, [null, "the provider has no permit for the request until it is too late to send"])
    }))

  it.effect("has a permit for a request that asks in any turn of another reservation, or is interrupted in any turn", () =>
    Effect.gen(function*() {
      const permits = yield* permitsOf({ requests: 1000, interval: "1 second", burst: 1000 }, InMemoryLedger)
      const wait = (turns: number) => Effect.replicateEffect(Effect.yieldNow, turns, { discard: true })
      for (let turns = 0; turns < 60; turns++) {
        const interrupted = yield* Effect.forkChild(permits.takePermit(bank, "submissions"))
        yield* wait(turns)
        yield* Fiber.interrupt(interrupted)
        const first = yield* Effect.forkChild(permits.takePermit(bank, "submissions"))
        yield* wait(turns)
        const second = yield* Effect.forkChild(permits.takePermit(bank, "reads"))
        yield* until(() => first.pollUnsafe() !== undefined && second.pollUnsafe() !== undefined)
      }
    }).pipe(Effect.provideService(References.MaxOpsBeforeYield, 3)))

  it.effect("has no open permit for a further request as long as others wait for the open ones", () =>
    Effect.gen(function*() {
      const { open, rest } = yield* permitsOf(tenPerSecond, InMemoryLedger)
      const { count } = yield* open(bank, "submissions", 100)
      assert.isAtLeast(count, 2)
      const waiting = yield* Effect.forkChild(rest(bank, "submissions", 1000), { startImmediately: true })
      assert.strictEqual((yield* open(bank, "submissions", 100)).count, count - 1)
      yield* Fiber.interrupt(waiting)
      assert.strictEqual((yield* open(bank, "submissions", 100)).count, count)
    }))

  it.effect("has an answer for each request, also if a logger throws when the database is away", () =>
    Effect.gen(function*() {
      let isAway = true
      const inner = queueIn(yield* Layer.build(InMemoryLedger))
      const queue: Queue = {
        ...inner,
        reservePermits: (...args) => isAway ? away : inner.reservePermits(...args)
      }
      const throwing = Logger.make(() => {
        throw new Error("the disk is full")
      })
      const { takePermit } = yield* permitsOf(tenPerSecond, Layer.succeedContext(queueContext(queue))).pipe(
        Effect.provideService(Logger.CurrentLoggers, new Set([throwing]))
      )
      const turnOf = Effect.fnUntraced(function*() {
        const fiber = yield* Effect.forkChild(takePermit(bank, "submissions"))
        yield* until(() => fiber.pollUnsafe() !== undefined)
        return yield* Fiber.join(fiber)
      })
      assert.strictEqual((yield* turnOf())._tag, "Unavailable")
      isAway = false
      assert.strictEqual((yield* turnOf())._tag, "Begin")
    }))

  it.effect("of an invalid limit stops the start, with its name", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(providersWith({ requests: 0, interval: "1 second" }))))
      assert.include(String(exit), "provider bank: limit.requests must be a whole number")
    }))
})

describe("a provider without a limit", () => {
  it.effect("costs no statement", () =>
    Effect.gen(function*() {
      const { calls, queue } = counting()
      const world = yield* makeWorld({ queue })
      yield* world.acceptMany(5)
      const stop = yield* world.start(Layer.merge(SubmissionWorker.layer, Reconciler.layer))
      yield* TestClock.adjust("10 seconds")
      yield* stop
      assert.strictEqual(world.attempts.length, 5)
      assert.isNotEmpty(world.reads)
      assert.deepStrictEqual(calls, { reservePermits: 0, openPermits: 0, closeProvider: 0 })
    }))
})

describe("Retry-After", () => {
  for (const limit of [undefined, tenPerSecond]) {
    const kind = limit === undefined ? "without a limit" : "with a limit"

    it.effect(`of a refusal pauses the provider for so long, ${kind}, and the operation is sent after that`, () =>
      Effect.gen(function*() {
        const { calls, queue } = counting()
        let refused = 0
        const world = yield* makeWorld({
          ...limit === undefined ? {} : { limit },
          queue,
          submit: (attempt) =>
            attempt === 1 && ++refused === 1 ? refuse(Duration.seconds(10)) : Effect.succeed(acknowledged)
        })
        yield* world.acceptOne
        const stop = yield* world.start(Layer.merge(SubmissionWorker.layer, Reconciler.layer))
        for (let step = 0; step < 95; step++) yield* TestClock.adjust(100)
        yield* world.acceptMany(3)
        assert.strictEqual(world.attempts.length, 1)
        for (let step = 0; step < 60; step++) yield* TestClock.adjust(100)
        yield* stop
        assert.isAbove(world.attempts.length, 4)
        const [first, ...others] = world.attempts
        // The wall clock shows whole milliseconds.
        assert.isAtLeast(Math.min(...others.map(({ at }) => at)) - first!.at, 9999)
        const lines = world.logs.filter(({ message }) => String(message).includes("asked to wait"))
        assert.deepStrictEqual(lines.map(({ annotations, level }) => [level, annotations["retry_after_ms"]]), [
          ["WARN", 10_000]
        ])
        assert.strictEqual(calls.closeProvider, limit === undefined ? 0 : 1)
      }))
  }

  const beyond = [[Duration.millis(1), /^status 429$/], [Duration.seconds(60), /^the provider has no permit/]] as const
  for (const [wait, reason] of beyond) {
    it.effect(`of ${Duration.format(wait)} until sendWithin returns the claim: the operation does not fail`, () =>
      Effect.gen(function*() {
        const world = yield* makeWorld({ submit: () => refuse(wait), circuit: neverOpen })
        const id = yield* world.acceptOne
        yield* workFor(world, "1 minute")
        assert.strictEqual(yield* world.stateOf(id), "submitting")
        assert.match(world.recordOf(id).return_reason!, reason)
      }))
  }

  it.effect("ends the wait of a request for its reserved permit: the request comes after the pause", () =>
    Effect.gen(function*() {
      let sent = 0
      const world = yield* makeWorld({
        limit: { ...tenPerSecond, burst: 2 },
        submit: () => ++sent === 1 ? refuse(Duration.seconds(10)) : Effect.succeed(acknowledged)
      })
      yield* world.acceptMany(2)
      const fiber = yield* Effect.forkChild(world.work)
      for (let step = 0; step < 150; step++) yield* TestClock.adjust(100)
      yield* Fiber.join(fiber)
      const [first, ...others] = world.attempts.map(({ at }) => at)
      assert.lengthOf(others, 2)
      assert.isAtLeast(Math.min(...others), first! + 10_000)
    }))

  it.effect("that is shorter ends no longer pause", () =>
    Effect.gen(function*() {
      const { pauseOf, slowDown } = yield* permitsOf(tenPerSecond, InMemoryLedger)
      yield* slowDown(bank, Duration.seconds(10))
      yield* TestClock.adjust("4 seconds")
      yield* slowDown(bank, Duration.seconds(5))
      assert.strictEqual(yield* pauseOf(bank), 6000)
      yield* slowDown(bank, Duration.seconds(7))
      assert.strictEqual(yield* pauseOf(bank), 7000)
    }))

  it.effect("holds no claim of a worker that is stopped", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => refuse(Duration.seconds(20)) })
      const id = yield* world.acceptOne
      const stop = yield* world.start(SubmissionWorker.layer)
      for (let second = 0; second < 3; second++) yield* TestClock.adjust("1 second")
      yield* Effect.forkChild(stop)
      yield* TestClock.adjust("10 millis")
      assert.strictEqual(
        world.recordOf(id).return_reason,
        "the worker was stopped while the request waited for its turn"
      )
    }))

  const answers: ReadonlyArray<readonly [string, Script, OperationState]> = [
    ["an uncertain answer", {
      submit: () => Effect.fail(new Uncertain({ reason: "status 503", retryAfter: Duration.seconds(10) }))
    }, "indeterminate"],
    ["a status read", {
      read: () =>
        Effect.succeed(
          StatusAnswer.NotProven({ reason: "unclear", detail: "status 429", retryAfter: Duration.seconds(10) })
        )
    }, "submitted"]
  ]
  it.effect.each(answers)(
    "of %s pauses submissions, and changes no state",
    ([, script, state]) =>
      Effect.gen(function*() {
        const world = yield* makeWorld(script)
        const id = yield* world.acceptOne
        yield* workFor(world, "1 second")
        if (script.read !== undefined) {
          yield* TestClock.adjust("5 seconds")
          yield* world.reconcile
        }
        assert.strictEqual(yield* world.stateOf(id), state)
        yield* world.acceptOne
        const fiber = yield* Effect.forkChild(world.work)
        yield* TestClock.adjust("8 seconds")
        assert.strictEqual(world.attempts.length, 1)
        yield* TestClock.adjust("2 seconds")
        yield* Fiber.join(fiber)
        assert.strictEqual(world.attempts.length, 2)
      })
  )

  it.effect("counts for 5 minutes at most, and an adapter's value that is no duration counts nothing", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        // The cast: an adapter without type checks.
        read: (read) =>
          Effect.succeed(
            StatusAnswer.NotProven({
              reason: "unclear",
              detail: "status 429",
              retryAfter: (read === 1 ? "soon" : Duration.days(1)) as Duration.Duration
            })
          )
      })
      yield* world.acceptOne
      yield* workFor(world, "1 second")
      yield* TestClock.adjust("5 seconds")
      yield* world.reconcile
      yield* TestClock.adjust("1 minute")
      yield* world.reconcile
      const lines = world.logs.filter(({ message }) => String(message).includes("asked to wait"))
      assert.deepStrictEqual(lines.map(({ annotations }) => annotations["retry_after_ms"]), [300_000])
    }))
})
