/**
 * The circuit of a provider opens after failures, probes, and closes again. The tests run the worker against a scripted
 * provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber } from "effect"
import { CircuitBreaker } from "effect/persistence"
import { TestClock } from "effect/testing"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
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
import { acknowledged, bank, makeWorld, unclear, unreachable, until } from "../../../fixtures/submission/World.ts"

const uncertain = Effect.fail(new Uncertain({ reason: "the connection was reset" }))
const oneAtATime = { concurrency: 1, providerConcurrency: 1 }

describe("The circuit of a provider", () => {
  it.effect("opens after five failures in a row: the worker then sends and claims nothing", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ policy: oneAtATime, submit: () => uncertain })
      const ids = yield* world.acceptMany(10)
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => world.attempts.length >= 5)
      yield* TestClock.adjust("990 millis")
      assert.lengthOf(world.attempts, 5)
      const states = yield* Effect.forEach(ids, world.stateOf)
      assert.deepStrictEqual(states, [...Array(5).fill("indeterminate"), ...Array(5).fill("accepted")])
    }))

  it.effect("stays closed after declared answers that leave the outcome unknown", () =>
    Effect.gen(function*() {
      const submit = () => Effect.fail(new Uncertain({ reason: "the provider answered U012", isAnswer: true }))
      const world = yield* makeWorld({ policy: oneAtATime, submit })
      yield* world.acceptMany(10)
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => world.attempts.length === 10)
    }))

  it.effect("lets one probe through when it is half open, and everything once the probe succeeded", () =>
    Effect.gen(function*() {
      let isDown = true
      const world = yield* makeWorld({
        submit: () => Effect.suspend(() => isDown ? uncertain : Effect.delay(Effect.succeed(acknowledged), "3 seconds"))
      })
      yield* world.acceptMany(5)
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => world.attempts.length === 5)
      isDown = false
      const ids = yield* world.acceptMany(25)
      // The circuit is half open after a second. The probe takes three seconds. Meanwhile the worker claims nothing.
      yield* TestClock.adjust("2500 millis")
      assert.lengthOf(world.attempts, 6)
      const claimed = [...world.memory.operations.values()].filter(({ operation }) => operation.state === "submitting")
      assert.lengthOf(claimed, 1)
      yield* TestClock.adjust("10 seconds")
      assert.lengthOf(world.attempts, 30)
      for (const id of ids) assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  it.effect("holds back operations that were claimed before it opened, until it closes again", () =>
    Effect.gen(function*() {
      let isDown = true
      const world = yield* makeWorld({
        submit: () =>
          Effect.suspend(() => isDown ? Effect.fail(new NotSent({ reason: "refused" })) : Effect.succeed(acknowledged))
      })
      const ids = yield* world.acceptMany(8)
      const working = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("990 millis")
      // Five attempts opened it. All eight operations have been due again several times since.
      assert.lengthOf(world.attempts, 5)
      isDown = false
      yield* TestClock.adjust(world.policy.sendWithin)
      yield* Fiber.join(working)
      for (const id of ids) assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
      assert.lengthOf(world.attempts, 13)
    }))

  it.effect("warns of each change, with the name of the provider", () =>
    Effect.gen(function*() {
      let isDown = true
      const world = yield* makeWorld({
        policy: oneAtATime,
        submit: () => Effect.suspend(() => isDown ? uncertain : Effect.succeed(acknowledged))
      })
      yield* world.acceptMany(8)
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => world.attempts.length >= 5)
      isDown = false
      yield* TestClock.adjust("5 seconds")
      const changes = world.logs.filter(({ message }) => String(message).startsWith("The circuit of a provider"))
      assert.deepStrictEqual(
        changes.map(({ annotations, level }) => [level, annotations["provider"], annotations["to"]]),
        [
          ["WARN", bank, "Open"],
          ["WARN", bank, "HalfOpen"],
          ["WARN", bank, "Closed"]
        ]
      )
    }))

  it.effect("opens after five submissions without an answer, whatever the status reads in between say", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => uncertain, read: () => Effect.succeed(unclear) })
      for (let n = 0; n < 5; n++) {
        yield* TestClock.adjust("2 seconds")
        yield* world.reconcile
        yield* world.acceptOne
        yield* world.work
      }
      assert.isNotEmpty(world.reads)
      const late = yield* world.acceptOne
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("900 millis")
      assert.strictEqual(yield* world.stateOf(late), "accepted")
    }))

  it.effect("opens after five status reads without an answer, whatever the submissions in between say", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ read: () => Effect.succeed(unreachable) })
      for (const count of [4, 1]) {
        yield* world.acceptMany(count)
        yield* world.work
        yield* TestClock.adjust("2 seconds")
        yield* world.inside(world.reconciler.runOnce(bank, count))
      }
      assert.lengthOf(world.reads, 5)
      const late = yield* world.acceptOne
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("900 millis")
      assert.strictEqual(yield* world.stateOf(late), "accepted")
    }))

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
      const open = Effect.repeat(through("reads", uncertain), { times: 4 })
      const calls = passable(breaker, bank, "submissions")
      yield* open
      assert.strictEqual(yield* calls, 0)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* calls, 1)
      yield* through("submissions", uncertain)
      assert.strictEqual(yield* calls, 0)
      yield* TestClock.adjust("2 seconds")
      yield* through("submissions", Effect.void)
      assert.strictEqual(yield* calls, Infinity)
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("of the status reads stays half open for a read after a submission that opens its own circuit", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const through = throughBreaker(breaker)
      yield* Effect.repeat(through("submissions", uncertain), { times: 4 })
      yield* Effect.repeat(through("reads", uncertain), { times: 4 })
      yield* TestClock.adjust("1 second")
      yield* through("submissions", uncertain)
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
      assert.strictEqual(yield* passable(breaker, bank, "reads"), 1)
      yield* through("reads", Effect.void)
      assert.strictEqual(yield* passable(breaker, bank, "reads"), Infinity)
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("belongs to one provider and does not affect the others", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      for (let n = 0; n < 5; n++) yield* Effect.ignore(breaker.execute(uncertain, { key: bank }))
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
      assert.strictEqual(yield* passable(breaker, "another-bank" as never, "submissions"), Infinity)
    }).pipe(Effect.provide(layerCircuitBreaker)))

  it.effect("stays open longer after each failed probe, up to half a minute", () =>
    Effect.gen(function*() {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const fail = Effect.ignore(breaker.execute(uncertain, { key: bank }))
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
      for (let n = 0; n < 5; n++) yield* Effect.ignore(breaker.execute(uncertain, { key: bank }))
      yield* TestClock.adjust("1 second")
      const probe = yield* Effect.forkChild(breaker.execute(Effect.never, { key: bank }), { startImmediately: true })
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 0)
      // A probe that never returned proves nothing, so the next may try.
      yield* Fiber.interrupt(probe)
      assert.strictEqual(yield* passable(breaker, bank, "submissions"), 1)
    }).pipe(Effect.provide(layerCircuitBreaker)))
})

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

  const reads: ReadonlyArray<readonly [StatusAnswer, "Success" | "Failure"]> = [
    [StatusAnswer.Proven({ state: "succeeded", names: namesNothing, evidence: null }), "Success"],
    [unclear, "Success"],
    [StatusAnswer.NotFound({ names: namesNothing, evidence: null }), "Success"],
    [unreachable, "Failure"]
  ]
  it.each(reads)("among status reads: %j", (answer, expected) => {
    assert.strictEqual(classifyRead(Exit.succeed(answer))._tag, expected)
  })
})
