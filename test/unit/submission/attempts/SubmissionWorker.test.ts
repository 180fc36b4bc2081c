/**
 * The worker sends an accepted operation at most once, and records how that ended. The tests run it against a scripted
 * provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { UnsafeDatabase } from "../../../../src/domain/Submission.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent, type SubmissionAnswer, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { skewedClock } from "../../../fixtures/submission/SkewedClock.ts"
import {
  acknowledged,
  away,
  makeWorld,
  neverOpen,
  reference,
  until,
  workFor
} from "../../../fixtures/submission/World.ts"

const notSent = Effect.fail(new NotSent({ reason: "connection refused" }))
const uncertain = Effect.fail(new Uncertain({ reason: "the connection was reset" }))

describe("An accepted operation", () => {
  it.effect("is sent once with its bound payload, and its acknowledgement is recorded", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      const id = yield* world.acceptOne
      assert.strictEqual(yield* world.work, 1)
      assert.deepStrictEqual(world.attempts.map(({ id, payload }) => [id, payload]), [[id, { amount: "10.00" }]])
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
      assert.deepStrictEqual(yield* world.evidenceOf(id), { by: "submission", answer: { status: "pending" } })
      assert.strictEqual(world.recordOf(id).reference, reference)
      // It is never sent again.
      for (let day = 0; day < 3; day++) {
        yield* TestClock.adjust("1 day")
        assert.strictEqual(yield* world.work, 0)
      }
      assert.lengthOf(world.attempts, 1)
    }))

  const uncertainties: ReadonlyArray<readonly [string, Effect.Effect<SubmissionAnswer, NotSent | Uncertain>, RegExp]> =
    [
      ["an uncertain failure", uncertain, /^the connection was reset$/],
      ["a defect", Effect.die(new TypeError("token=hunter2")), /^a defect: TypeError$/],
      ["a defect beside proof that nothing was sent", Effect.ensuring(notSent, Effect.die("hunter2")), /^a defect: /],
      ["silence", Effect.never, /^the provider did not answer in time$/],
      [
        "silence that cannot be interrupted",
        Effect.uninterruptible(Effect.never),
        /^the provider did not answer in time$/
      ],
      ["an invalid answer", Effect.succeed({} as SubmissionAnswer), /./],
      ["nothing", Effect.succeed(undefined as never), /./],
      ["an interruption of its own", Effect.interrupt, /^the worker was stopped while it was sending$/]
    ]
  it.effect.each(uncertainties)(
    "is indeterminate after %s, and is not sent again",
    ([, submit, reason]) =>
      Effect.gen(function*() {
        const world = yield* makeWorld({ submit: () => submit })
        const id = yield* world.acceptOne
        yield* workFor(world, world.policy.attemptTimeout)
        assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "indeterminate"])
        const evidence = (yield* world.evidenceOf(id)) as { readonly reason: string }
        assert.match(evidence.reason, reason)
        yield* TestClock.adjust("1 day")
        yield* world.rescue
        assert.strictEqual(yield* world.work, 0)
        assert.lengthOf(world.attempts, 1)
      })
  )
})

describe("An operation that provably was not sent", () => {
  it.effect("is retried until an attempt sends something, which is the last attempt", () =>
    Effect.gen(function*() {
      for (
        const [last, state] of [[Effect.succeed(acknowledged), "submitted"], [uncertain, "indeterminate"]] as const
      ) {
        const world = yield* makeWorld({ submit: (attempt) => attempt < 4 ? notSent : last })
        const id = yield* world.acceptOne
        yield* workFor(world, world.policy.sendWithin)
        assert.lengthOf(world.attempts, 4)
        assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", state])
      }
    }))

  it.effect("is retried after growing pauses until the send deadline, and then fails", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => notSent, circuit: neverOpen })
      const id = yield* world.acceptOne
      yield* workFor(world, world.policy.sendWithin)
      const { failure, state } = yield* world.show(id)
      assert.deepStrictEqual([state, failure?.code], ["failed", "provider_unreachable"])
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "failed"])
      const times = world.attempts.map(({ at }) => at)
      assert.isBelow(times.at(-1)!, Duration.toMillis(world.policy.sendWithin))
      const pauses = times.slice(1).map((at, n) => at - times[n]!)
      // Doubling from 200 ms to 5 s, plus or minus half.
      for (const [n, pause] of pauses.entries()) {
        const pure = Math.min(200 * 2 ** n, 5000)
        assert.isTrue(pause >= pure * 0.5 && pause <= pure * 1.5, `${pause} after attempt ${n + 1}`)
      }
      assert.isAtLeast(times.length, 6)
    }))

  it.effect("logs one line for each cause, and how many attempts failed once the provider answers again", () =>
    Effect.gen(function*() {
      const causes = ["refused", "refused", "refused", "no route", "refused", "refused", null, null, "refused"]
      const world = yield* makeWorld({
        submit: () => {
          const cause = causes.shift() ?? null
          return cause === null ? Effect.succeed(acknowledged) : Effect.fail(new NotSent({ reason: cause }))
        },
        circuit: neverOpen
      })
      yield* world.acceptMany(2)
      yield* workFor(world, world.policy.sendWithin)
      yield* world.acceptOne
      yield* workFor(world, world.policy.sendWithin)
      assert.isEmpty(causes)
      const unreachable = (reason: string) => ["WARN", "Could not reach the provider: nothing was sent", reason]
      const answers = (failed: number) => ["INFO", "The provider answers again: further attempts reach it", failed]
      assert.deepStrictEqual(
        world.logs.map(({ annotations, level, message }) => [
          level,
          message,
          annotations["reason"] ?? annotations["failed_attempts"]
        ]),
        [...["refused", "no route", "refused"].map(unreachable), answers(6), unreachable("refused"), answers(1)]
      )
    }))

  it.effect("does not get more time when the wall clock is set back", () =>
    Effect.gen(function*() {
      const clock = skewedClock(0)
      const world = yield* makeWorld({
        policy: { sendWithin: Duration.seconds(4) },
        submit: () => notSent,
        circuit: neverOpen,
        clock: clock.over
      })
      const id = yield* world.acceptOne
      const fiber = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("2 seconds")
      clock.skew = -4000
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* world.stateOf(id), "failed")
      yield* Fiber.join(fiber)
    }))

  it.effect("does not get more time when the monotonic clock stops, as it does while a machine sleeps", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        policy: { sendWithin: Duration.seconds(4) },
        submit: () => notSent,
        circuit: neverOpen,
        clock: () => ({ monotonicTimeNanos: Effect.succeed(0n), monotonicTimeNanosUnsafe: () => 0n })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, world.policy.sendWithin)
      assert.strictEqual(yield* world.stateOf(id), "failed")
      for (const { at } of world.attempts) assert.isBelow(at, Duration.toMillis(world.policy.sendWithin))
    }))

  it.effect("is returned without an attempt when the claim itself took too long", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        policy: {
          sendWithin: Duration.seconds(3),
          attemptTimeout: Duration.seconds(1),
          rescueAfter: Duration.seconds(9)
        },
        queue: (queue) => ({ claim: (...args) => Effect.tap(queue.claim(...args), Effect.sleep("4 seconds")) })
      })
      const id = yield* world.acceptOne
      yield* workFor(world, "5 seconds")
      assert.isEmpty(world.attempts)
      assert.strictEqual(yield* world.stateOf(id), "submitting")
      assert.strictEqual(world.recordOf(id).return_reason, "it was too late to send")
    }))

  it.effect("fails without an attempt when its payload cannot be read", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      const id = yield* world.acceptOne
      world.memory.operations.set(id, { ...world.recordOf(id), payload: null })
      yield* world.work
      assert.strictEqual((yield* world.show(id)).failure?.code, "payload_unreadable")
      assert.isEmpty(world.attempts)
    }))
})

describe("A claim", () => {
  it.effect("whose commit was not acknowledged is never sent, and a rescue makes it indeterminate", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        queue: (queue) => ({ claim: (...args) => Effect.andThen(queue.claim(...args), away) })
      })
      const id = yield* world.acceptOne
      assert.strictEqual(yield* world.work, 0)
      assert.strictEqual(yield* world.stateOf(id), "submitting")
      yield* TestClock.adjust(world.policy.rescueAfter)
      yield* world.rescue
      assert.isEmpty(world.attempts)
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
    }))

  it.effect("that the store answers only after it is stale is never sent", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        queue: (queue) => ({
          claim: (...args) => Effect.tap(queue.claim(...args), Effect.uninterruptible(Effect.sleep("100 seconds")))
        })
      })
      const id = yield* world.acceptOne
      assert.strictEqual(yield* workFor(world, "200 seconds"), 0)
      assert.isEmpty(world.attempts)
      assert.strictEqual(yield* world.stateOf(id), "submitting")
    }))
})

describe("A worker", () => {
  it.effect("refuses to start on a database that could lose commits in a crash", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        queue: () => ({ prepare: Effect.fail(new UnsafeDatabase({ setting: "fsync" })) })
      })
      yield* world.acceptOne
      const exit = yield* Effect.exit(world.start(SubmissionWorker.layer))
      assert.deepStrictEqual(Exit.isFailure(exit) && Cause.squash(exit.cause), new UnsafeDatabase({ setting: "fsync" }))
      yield* TestClock.adjust("1 minute")
      assert.isEmpty(world.attempts)
    }))

  it.effect("starts even if holding the accepted operations of a replaced database takes minutes", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        queue: () => ({ prepare: Effect.delay(Effect.succeed({ moved: true }), "5 minutes") })
      })
      const id = yield* world.acceptOne
      const starting = yield* Effect.forkChild(world.start(SubmissionWorker.layer))
      yield* TestClock.adjust("4 minutes")
      assert.strictEqual(yield* world.stateOf(id), "accepted")
      yield* TestClock.adjust("2 minutes")
      yield* Fiber.join(starting)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  it.effect("holds an operation that it has sent if the ledger has lost the claim", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => Effect.delay(Effect.succeed(acknowledged), "1 second") })
      const id = yield* world.acceptOne
      const before = world.recordOf(id)
      const working = yield* Effect.forkChild(world.work)
      yield* until(() => world.attempts.length === 1)
      world.memory.cluster.timeline++
      world.memory.operations.set(id, { ...before, timeline: world.memory.cluster.timeline })
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(working)
      assert.strictEqual(yield* world.work, 0, "it is not sent again")
      assert.deepInclude(yield* world.show(id), { state: "accepted", under_review: true })
      yield* world.reconcile
      assert.strictEqual(world.reads[0]?.reference, reference)
    }))

  it.effect("does not hold an operation that it provably has not sent", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ submit: () => notSent, circuit: neverOpen })
      const id = yield* world.acceptOne
      const before = world.recordOf(id)
      const working = yield* Effect.forkChild(world.work)
      yield* until(() => world.attempts.length === 1)
      world.memory.operations.set(id, before)
      yield* TestClock.adjust(world.policy.sendWithin)
      yield* Fiber.join(working)
      assert.deepStrictEqual(world.recordOf(id), before)
    }))

  it.effect("refuses a policy that would rescue a claim whose holder may still send", () =>
    Effect.gen(function*() {
      const policy = { sendWithin: Duration.seconds(30), attemptTimeout: Duration.seconds(30) }
      for (const [rescueAfter, tag] of [[60, "Failure"], [61, "Success"]] as const) {
        const world = Effect.scoped(makeWorld({ policy: { ...policy, rescueAfter: Duration.seconds(rescueAfter) } }))
        assert.strictEqual((yield* Effect.exit(world))._tag, tag)
      }
    }))
})
