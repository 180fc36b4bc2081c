/**
 * The circuit of a provider opens after failures, probes, and closes again. The tests run the worker against a scripted
 * provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber } from "effect"
import { CircuitBreaker } from "effect/persistence"
import { TestClock } from "effect/testing"
import {
  classifyAttempt,
  classifyRead,
  layerCircuitBreaker,
  passable,
  throughCircuits
} from "../../../../src/submission/providers/Circuit.ts"
import {
  namesNothing,
  NotSent,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { acknowledged, bank, unclear, unreachable } from "../../../fixtures/submission/World.ts"

const oneAtATime = w.policy({ concurrency: 1, providerConcurrency: 1 })
/** The circuit is open: nothing is claimed. */
const isOpen = [w.accept(), w.start(), w.pass("900 millis"), w.is("accepted", 5)]

w.tell("The circuit of a provider", {
  "opens after five failures in a row: the worker then sends and claims nothing": [
    [oneAtATime, w.answers(w.reset), w.accept(10), w.start(), w.untilSent(5), w.pass("990 millis"), w.sent(5)],
    w.counts({ indeterminate: 5, accepted: 5 })
  ],
  "stays closed after declared answers that leave the outcome unknown": [
    [oneAtATime, w.answers(w.uncertain("the provider answered U012", { isAnswer: true })), w.accept(10), w.start()],
    w.untilSent(10)
  ],
  "lets one probe through when it is half open, and everything once the probe succeeded": [
    [w.answers(w.reset), w.accept(5), w.start(), w.untilSent(5), w.answers(w.slowly("3 seconds")), w.accept(25)],
    // The circuit is half open after a second. The probe takes three seconds. Meanwhile the worker claims nothing.
    [w.pass("2500 millis"), w.sent(6), w.counts({ indeterminate: 5, submitting: 1, accepted: 24 })],
    [w.pass("10 seconds"), w.sent(30), w.counts({ indeterminate: 5, submitted: 25 })]
  ],
  "holds back operations that were claimed before it opened, until it closes again": [
    // Five attempts opened it. All eight operations have been due again several times since.
    [w.answers(w.refused), w.accept(8), w.begin(), w.pass("990 millis"), w.sent(5), w.answers(w.accepts)],
    [w.pass("sendWithin"), w.join, w.went("submitting submitted"), w.sent(13)]
  ],
  "warns of each change, with the name of the provider": [
    [oneAtATime, w.answers(w.reset), w.accept(8), w.start(), w.untilSent(5), w.answers(w.accepts), w.pass("5 seconds")],
    w.check(({ world }) => {
      const changes = world.logs.filter(({ message }) => String(message).startsWith("The circuit of a provider"))
      assert.deepStrictEqual(
        changes.map(({ annotations, level }) => [level, annotations["provider"], annotations["to"]]),
        ["Open", "HalfOpen", "Closed"].map((to) => ["WARN", bank, to])
      )
    })
  ],
  "opens after five submissions without an answer, with any answers to status reads in between": [
    [w.answers(w.reset), [1, 2, 3, 4, 5].map(() => [w.pass("2 seconds"), w.reconcile(), w.accept(), w.work()])],
    [w.check(({ world }) => assert.isNotEmpty(world.reads)), isOpen]
  ],
  "opens after five status reads without an answer, with any answers to submissions in between": [
    [w.finds(unreachable), w.accept(4), w.work(), w.pass("2 seconds"), w.reconcileUpTo(4)],
    [w.accept(), w.work(), w.pass("2 seconds"), w.reconcileUpTo(1), w.read(5), isOpen]
  ]
})

describe("The circuit of a provider", () => {
  /** Runs a call through the circuits of its kind. */
  const throughBreaker =
    (breaker: CircuitBreaker.CircuitBreaker) => <A, E>(kind: "submissions" | "reads", call: Effect.Effect<A, E>) =>
      Effect.exit(
        throughCircuits(breaker, {
          provider: bank,
          kind,
          classify: (exit) => Exit.isSuccess(exit) ? CircuitBreaker.success : CircuitBreaker.failure()
        }, call)
      )

  it.effect("of the status reads lets a submission through as its probe, whose answer closes it", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const through = throughBreaker(breaker)
      const open = Effect.repeat(through("reads", w.reset), { times: 4 })
      const calls = passable(breaker, bank, "submissions")
      yield* open
      assert.strictEqual(yield* calls, 0)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* calls, 1)
      yield* through("submissions", w.reset)
      assert.strictEqual(yield* calls, 0)
      yield* TestClock.adjust("2 seconds")
      yield* through("submissions", Effect.void)
      assert.strictEqual(yield* calls, Infinity)
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("of the status reads stays half open for a read after a submission that opens its own circuit", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const through = throughBreaker(breaker)
      yield* Effect.repeat(through("submissions", w.reset), { times: 4 })
      yield* Effect.repeat(through("reads", w.reset), { times: 4 })
      yield* TestClock.adjust("1 second")
      yield* through("submissions", w.reset)
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
      assert.strictEqual(yield* passable(breaker, bank, "reads"), 1)
      yield* through("reads", Effect.void)
      assert.strictEqual(yield* passable(breaker, bank, "reads"), Infinity)
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("belongs to one provider and does not affect the others", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      for (let n = 0; n < 5; n++) yield* Effect.ignore(breaker.execute(w.reset, { key: bank }))
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
      assert.strictEqual(yield* passable(breaker, "another-bank" as never, "submissions"), Infinity)
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("stays open longer after each failed probe, up to half a minute", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const fail = Effect.ignore(breaker.execute(w.reset, { key: bank }))
      for (let n = 0; n < 5; n++) yield* fail
      for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
        assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
        yield* TestClock.adjust((seconds - 0.5) * 1000)
        assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0, `after ${seconds - 0.5} s`)
        yield* TestClock.adjust("500 millis")
        assert.strictEqual(yield* passable(breaker, bank, "submissions"), 1, `after ${seconds} s`)
        yield* fail
      }
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("allows no second probe", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      for (let n = 0; n < 5; n++) yield* Effect.ignore(breaker.execute(w.reset, { key: bank }))
      yield* TestClock.adjust("1 second")
      const probe = yield* Effect.forkChild(breaker.execute(Effect.never, { key: bank }), { startImmediately: true })
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
      // A probe that never returned proves nothing, so the next may try.
      yield* Fiber.interrupt(probe)
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 1)
    }).pipe(Effect.provide(layerCircuitBreaker)))
})

it.effect("A circuit whose store cannot be read lets every request through", () =>
  Effect.gen(function*() {
    const breaker = { state: () => Effect.fail("no store") } as unknown as CircuitBreaker.CircuitBreaker
    for (const kind of ["submissions", "reads"] as const) {
      assert.strictEqual(yield* passable(breaker, bank, kind), Infinity)
    }
  }))

describe("Failures of the provider", () => {
  type Attempt = Exit.Exit<SubmissionAnswer, NotSent | Uncertain>
  const attempts: ReadonlyArray<readonly [Attempt, "Success" | "Failure" | "Ignored"]> = [
    [Exit.succeed(acknowledged), "Success"],
    [Exit.succeed(SubmissionAnswer.Succeeded({ names: namesNothing, evidence: null })), "Success"],
    [
      Exit.succeed(SubmissionAnswer.Rejected({ code: "no", names: namesNothing, evidence: null })),
      "Success"
    ],
    [Exit.fail(new NotSent({ reason: "refused" })), "Failure"],
    [Exit.fail(new NotSent({ reason: "no credentials", isLocal: true })), "Ignored"],
    [Exit.fail(new NotSent({ reason: "it cannot be encoded", isPermanent: true })), "Ignored"],
    [Exit.fail(new NotSent({ reason: "429", isRefused: true })), "Failure"],
    [Exit.fail(new NotSent({ reason: "429", isRefused: true, retryAfter: Duration.seconds(1) })), "Ignored"],
    [Exit.fail(new Uncertain({ reason: "reset" })), "Failure"],
    [Exit.die("defect"), "Failure"]
  ]
  it.each(attempts)("among submissions: %j", (exit, expected) => {
    assert.strictEqual(classifyAttempt(exit)._tag, expected)
  })

  const reads: ReadonlyArray<readonly [StatusAnswer, CircuitBreaker.Outcome["_tag"]]> = [
    [StatusAnswer.Proven({ state: "succeeded", names: namesNothing, evidence: null }), "Success"],
    [unclear, "Success"],
    [StatusAnswer.NotFound({ names: namesNothing, evidence: null }), "Success"],
    [unreachable, "Failure"],
    [{ ...unreachable, retryAfter: Duration.seconds(1) }, "Ignored"]
  ]
  it.each(reads)("among status reads: %j", (answer, expected) => {
    assert.strictEqual(classifyRead(Exit.succeed(answer))._tag, expected)
  })
})
