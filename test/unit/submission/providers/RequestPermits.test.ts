/**
 * Worker and reconciler keep the limit of a provider, and the pauses that it asks for. The tests use the ledger in memory and the
 * test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Fiber, Layer, Logger, References } from "effect"
import { TestClock } from "effect/testing"
import type { ProviderLimit } from "../../../../src/domain/ProviderLimit.ts"
import type { SubmissionQueue } from "../../../../src/services/SubmissionQueue.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { ProviderAdapter, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import { RequestPermits } from "../../../../src/submission/providers/RequestPermits.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { InMemoryLedger } from "../../../fixtures/ledger/Ledger.ts"
import { type Queue, queueContext, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { away, bank, until } from "../../../fixtures/submission/World.ts"

const tenPerSecond: ProviderLimit = { requests: 10, interval: "1 second" }
const limited = (limit: ProviderLimit) => w.given({ limit })
const both = w.start(Layer.merge(SubmissionWorker.layer, Reconciler.layer))

const refuse = (retryAfter: Duration.Duration) => w.notSent("status 429", { isRefused: true, retryAfter })
const busy = (retryAfter: Duration.Duration) =>
  StatusAnswer.NotProven({ reason: "unclear", detail: "status 429", retryAfter })
const tenSeconds = Duration.seconds(10)

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

/** When the store was asked whether an operation may still be sent. */
const asked: Array<number> = []

w.tell("a provider with a limit", {
  "gets no more requests than that in a second, all submissions in the end, and status reads do not starve": [
    [limited(tenPerSecond), w.accept(60), both, w.pass(10, 1000), w.sent(60)],
    w.check(({ world: { attempts, reads } }) => {
      assert.isAtMost(mostInASecond([...attempts, ...reads].map(({ at }) => at)), 10)
      assert.isAtLeast(reads.length, 10)
    })
  ],
  "gets nothing while the database reserves no permits: the claim is returned": [
    [limited(tenPerSecond), w.loses("reservePermits"), w.accept(), w.workFor("1 minute"), w.sent(0)],
    w.returned("the database did not reserve a permit of the provider's limit")
  ],
  "gets no request that is later than its permit by more than half of the slack: it reserves another permit": [
    // The answer of the database takes longer than half of the slack of 100 ms, once.
    w.store((queue, { calls }) => ({
      reservePermits: (...args) =>
        Effect.tap(queue.reservePermits(...args), () => Effect.sleep(calls["reservePermits"] === 1 ? 60 : 0))
    })),
    [limited(tenPerSecond), w.accept(), w.workFor("5 seconds"), w.called("reservePermits", 2), w.sent(1)]
  ],
  "gets an operation whose authorization is older than storeTimeout only after the worker asked again": [
    w.store((queue) => ({
      mayStillSend: (claim) =>
        Effect.flatMap(Clock.currentTimeMillis, (at) => {
          asked.push(at)
          return queue.mayStillSend(claim)
        })
    })),
    [limited({ requests: 1, interval: "10 seconds" }), w.accept(2), w.begin(), w.pass(100, 200), w.join],
    w.check(({ world: { attempts: [first, second] } }) => {
      assert.isAbove(second!.at - first!.at, 10_000)
      assert.isTrue(asked.some((at) => at > second!.at - 5000 && at <= second!.at))
    })
  ],
  "gets no operation whose authorization ended while a slow statement reserved its permit": [
    // The claim is 4 s old when the worker asks for a permit, and 6 s when it has one.
    w.store((queue, { calls }) => ({
      claim: (...args) => Effect.tap(queue.claim(...args), () => Effect.sleep(4000)),
      reservePermits: (...args) => Effect.delay(queue.reservePermits(...args), calls["reservePermits"] === 1 ? 2000 : 0)
    })),
    [limited({ requests: 10, interval: "1 minute", slack: "30 seconds" }), w.accept(), w.begin(), w.pass("5 seconds")],
    [w.revoke, w.pass("10 seconds"), w.join, w.sent(0), w.is("failed")]
  ],
  "gets no status read while the database reserves no permits": [
    [limited(tenPerSecond), w.accept(), w.workFor("1 second"), w.is("submitted"), w.loses("reservePermits")],
    [w.pass("5 seconds"), w.reconcile(1), w.read(0)]
  ],
  "is asked for a status after the first delay if there was no permit, however often it was asked before": [
    [limited(tenPerSecond), w.accept(), w.workFor("1 second")],
    Array.from({ length: 10 }, () => [w.pass("2 hours"), w.reconcile()]),
    [w.loses("reservePermits"), w.pass("2 hours"), w.reconcile(), w.heals, w.pass("2 seconds"), w.reconcile()],
    w.read(11)
  ],
  "returns the claims of operations that have no permit until sendWithin": [
    [limited({ requests: 1, interval: "1 hour" }), w.accept(2), w.workFor("1 minute"), w.sent(1)],
    w.check(({ ids, world }) =>
      assert.sameMembers(ids.map((id) => world.recordOf(id).return_reason), [
        null,
        "the provider has no permit for the request until it is too late to send"
      ])
    )
  ]
})

describe("a provider with a limit", () => {
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

w.tell("a provider without a limit", {
  "costs no statement": [
    [w.accept(5), both, w.pass("10 seconds"), w.stop, w.sent(5)],
    [w.called("reservePermits", 0), w.called("openPermits", 0), w.called("closeProvider", 0)],
    w.check(({ world }) => assert.isNotEmpty(world.reads))
  ]
})

const asksToWait = (...millis: ReadonlyArray<number>) =>
  w.check(({ world }) => {
    const lines = world.logs.filter(({ message }) => String(message).includes("asked to wait"))
    assert.deepStrictEqual(
      lines.map(({ annotations, level }) => [level, annotations["retry_after_ms"]]),
      millis.map((wait) => ["WARN", wait])
    )
  })
/** Each attempt but the first. The wall clock shows whole milliseconds. */
const tenSecondsLater = w.check(({ world: { attempts: [first, ...others] } }) =>
  assert.isAtLeast(Math.min(...others.map(({ at }) => at)) - first!.at, 9999)
)
const firstRefused = w.answersBy((n, attempt) => n === 0 && attempt === 1 ? refuse(tenSeconds) : w.accepts)

w.tell("Retry-After", {
  ...w.each(
    [["without a limit", []], ["with a limit", [limited(tenPerSecond)]]] as const,
    ([kind]) => `of a refusal pauses the provider for so long, ${kind}, and the operation is sent after that`,
    ([kind, limit]) => [
      [limit, firstRefused, w.accept(), both, w.pass(100, 95), w.accept(3), w.sent(1), w.pass(100, 60), w.stop],
      [w.sent(5), tenSecondsLater, asksToWait(10_000), w.called("closeProvider", kind === "with a limit" ? 1 : 0)],
      w.check(({ world: { attempts: [first], memory } }) => {
        const { closed_until } = memory.limits.get(bank) ?? { closed_until: Infinity }
        assert.isAtLeast(closed_until / 1000 - first!.at, 9999, "for the workers of all processes")
      })
    ]
  ),
  ...w.each(
    [[Duration.millis(1), /^status 429$/], [Duration.seconds(60), /^the provider has no permit/]] as const,
    ([wait]) => `of ${Duration.format(wait)} until sendWithin returns the claim: the operation does not fail`,
    ([wait, reason]) => [
      [w.noCircuit, w.answers(refuse(wait)), w.accept(), w.workFor("1 minute"), w.returned(reason)]
    ]
  ),
  "ends the wait of a request for its reserved permit: the request comes after the pause": [
    [limited({ ...tenPerSecond, burst: 2 }), firstRefused, w.accept(2), w.begin(), w.pass(100, 150), w.join],
    [w.sent(3), tenSecondsLater]
  ],
  "holds no claim of a worker that is stopped": [
    [w.answers(refuse(Duration.seconds(20))), w.accept(), w.start(), w.pass("1 second", 3), w.stopping],
    [w.pass("10 millis"), w.returned("the worker was stopped while the request waited for its turn")]
  ],
  "of an uncertain answer pauses submissions, and changes no state": [
    [w.answers(w.uncertain("status 503", { retryAfter: tenSeconds })), w.accept(), w.workFor("1 second")],
    [w.is("indeterminate"), w.accept(), w.begin(), w.pass("8 seconds"), w.sent(1), w.pass("2 seconds"), w.join],
    w.sent(2)
  ],
  "of a status read pauses submissions, and changes no state": [
    [w.finds(busy(tenSeconds)), w.accept(), w.workFor("1 second"), w.pass("5 seconds"), w.reconcile()],
    [w.is("submitted"), w.accept(), w.begin(), w.pass("8 seconds"), w.sent(1), w.pass("2 seconds"), w.join, w.sent(2)]
  ],
  "counts for 5 minutes at most, and an adapter's value that is no duration counts nothing": [
    // The cast: an adapter without type checks.
    w.finds(busy("soon" as never), busy(Duration.days(1))),
    [w.accept(), w.workFor("1 second"), w.pass("5 seconds"), w.reconcile(), w.pass("1 minute"), w.reconcile()],
    asksToWait(300_000)
  ]
})

describe("Retry-After", () => {
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
})
