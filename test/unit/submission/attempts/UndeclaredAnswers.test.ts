/**
 * Answers that the adapter does not declare, such as those of a wrong path: each makes its operation `indeterminate`, so the worker pauses
 * the provider after five in a row. The tests run a worker over the ledger in memory, on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Schema } from "effect"
import { TestClock } from "effect/testing"
import { ResourceOwner } from "../../../../src/domain/Grant.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent, SubmissionAnswer, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { ProviderPauses } from "../../../../src/submission/providers/ProviderPauses.ts"
import { unknownId } from "../../../fixtures/ledger/Ledger.ts"
import {
  acknowledged,
  bank,
  makeWorld,
  notFound,
  unreachable,
  until,
  type World
} from "../../../fixtures/submission/World.ts"

const undeclared = Effect.fail(new Uncertain({ reason: "status 404, which is not declared", isUndeclared: true }))
const wrongKey = Effect.fail(new NotSent({ reason: "status 401", isRefused: true, isLocal: true }))
const accepts: Effect.Effect<SubmissionAnswer> = Effect.succeed(acknowledged)

/** A bank whose answer the test changes. */
const makeBank = (policy: Partial<World["policy"]> = {}) =>
  Effect.gen(function*() {
    const bank: { answer: Effect.Effect<SubmissionAnswer, NotSent | Uncertain> } = { answer: undeclared }
    const world = yield* makeWorld({
      policy,
      submit: () => Effect.suspend(() => bank.answer),
      read: () => Effect.succeed(notFound)
    })
    return { bank, world }
  })

const logged = (world: World, start: string) =>
  world.logs.filter(({ message }) => String(message).startsWith(start)).map(({ annotations, level }) => ({
    level,
    ...annotations
  }))

const countOf = (world: World, state: string) =>
  [...world.memory.operations.values()].filter(({ operation }) => operation.state === state).length

describe("A probe at the start that speaks against the settings", () => {
  it.effect("pauses the provider without a submission, until a repeated probe passes", () =>
    Effect.gen(function*() {
      const reason = "a 404 that the adapter does not declare"
      const probe: { result: Effect.Effect<string | null, typeof unreachable>; count: number } = {
        result: Effect.succeed(reason),
        count: 0
      }
      const world = yield* makeWorld({
        probe: Effect.suspend(() => {
          probe.count++
          return probe.result
        })
      })
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => logged(world, "Paused a provider").length > 0)
      const line = { level: "WARN", provider: bank, reason }
      assert.deepStrictEqual(logged(world, "Paused a provider whose probe failed"), [line])
      yield* world.acceptMany(30)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(probe.count, 61)
      // A bank that is away proves nothing.
      probe.result = Effect.fail(unreachable)
      yield* TestClock.adjust("10 minutes")
      assert.isEmpty(world.attempts)
      assert.deepStrictEqual(logged(world, "Paused a provider"), [line])
      probe.result = Effect.succeed(null)
      yield* TestClock.adjust("15 seconds")
      assert.lengthOf(world.attempts, 30)
      const probes = probe.count
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(probe.count, probes)
      assert.lengthOf(logged(world, "Resumed a provider: its probe passed"), 1)
    }))

  it.effect("pauses the provider for refused credentials, and lets one operation at a time try", () =>
    Effect.gen(function*() {
      const reason = "the provider refused the credentials: status 401"
      const bank: { probe: string | null; answer: Effect.Effect<SubmissionAnswer, NotSent> } = {
        probe: reason,
        answer: Effect.fail(new NotSent({ reason, isRefused: true, isLocal: true }))
      }
      const world = yield* makeWorld({
        probe: Effect.sync(() => bank.probe),
        submit: () => Effect.suspend(() => bank.answer)
      })
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(logged(world, "Paused a provider after a local failure"), 1)
      bank.probe = null
      yield* TestClock.adjust("11 seconds")
      assert.lengthOf(logged(world, "Resumed a provider: its probe passed"), 1)
      bank.probe = reason
      const other = yield* makeWorld({
        probe: Effect.sync(() => bank.probe),
        submit: () => Effect.suspend(() => bank.answer)
      })
      yield* other.start(SubmissionWorker.layer)
      yield* until(() => logged(other, "Paused a provider").length > 0)
      yield* other.acceptMany(30)
      yield* TestClock.adjust("5 seconds")
      assert.isAbove(other.attempts.length, 0)
      assert.isBelow(other.attempts.length, 6)
      bank.answer = Effect.succeed(acknowledged)
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(countOf(other, "submitted"), 30)
    }))

  it.effect("pauses the provider only until a declared answer to an attempt that is under way", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        probe: Effect.delay(Effect.succeed("a 404"), "1 second"),
        submit: () => Effect.delay(accepts, "3 seconds")
      })
      yield* world.acceptOne
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("2 seconds")
      assert.lengthOf(logged(world, "Paused a provider"), 1)
      yield* TestClock.adjust("2 seconds")
      assert.lengthOf(logged(world, "Resumed a provider"), 1)
    }))

  it.effect("does not delay the start, and an attempt that was declared shows more", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({ probe: Effect.delay(Effect.succeed("a 404"), "3 seconds") })
      yield* world.acceptOne
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("2 seconds")
      assert.lengthOf(world.attempts, 1)
      yield* TestClock.adjust("2 seconds")
      assert.isEmpty(logged(world, "Paused a provider"))
    }))
})

describe("Answers that the adapter does not declare", () => {
  it.effect("pause the provider after five in a row, whatever its status reads say in between", () =>
    Effect.gen(function*() {
      const { world } = yield* makeBank()
      for (let n = 0; n < 30; n++) {
        yield* world.acceptOne
        yield* world.work
        yield* world.reconcile
      }
      assert.deepStrictEqual([countOf(world, "indeterminate"), countOf(world, "accepted")], [5, 25])
      const line = { level: "WARN", provider: bank, reason: "status 404, which is not declared" }
      assert.deepStrictEqual(logged(world, "A provider gave an answer"), [line])
      assert.deepStrictEqual(logged(world, "Paused a provider after answers"), [line])
    }))

  it.effect("pause the provider after the first one that refuses the credentials", () =>
    Effect.gen(function*() {
      const { bank, world } = yield* makeBank({ concurrency: 1 })
      const reason = "status 401, which is not declared"
      bank.answer = Effect.fail(new Uncertain({ reason, isUndeclared: true, isUnauthorized: true }))
      yield* world.acceptMany(4)
      yield* world.work
      assert.lengthOf(world.attempts, 1)
      assert.strictEqual(countOf(world, "indeterminate"), 1)
    }))

  it.effect("reach five operations of a backlog, and none of the claims that were returned before", () =>
    Effect.gen(function*() {
      const { bank, world } = yield* makeBank()
      bank.answer = wrongKey
      const ids = yield* world.acceptMany(30)
      yield* world.work
      yield* TestClock.adjust("1 minute")
      bank.answer = undeclared
      // A new worker knows no pause.
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("900 millis")
      yield* stop
      assert.deepStrictEqual([countOf(world, "indeterminate"), countOf(world, "submitting")], [5, 25])
      bank.answer = accepts
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("3 minutes")
      assert.strictEqual(countOf(world, "submitted"), 25)
      for (const id of ids.filter((id) => world.recordOf(id).operation.state === "submitted")) {
        assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
        assert.lengthOf(world.attempts.filter((attempt) => attempt.id === id), 2, "one with the wrong key, one send")
      }
    }))

  it.effect("are probed by one operation at a time, less and less often, until the first declared one", () =>
    Effect.gen(function*() {
      const { bank, world } = yield* makeBank({ pollInterval: Duration.seconds(1) })
      yield* world.acceptMany(100)
      yield* world.start(SubmissionWorker.layer)
      // The first poll ends before the clock moves.
      yield* until(() => logged(world, "Paused a provider").length > 0)
      yield* Effect.repeat(Effect.yieldNow, { times: 1000 })
      yield* TestClock.adjust("13 minutes")
      const times = world.attempts.map(({ at }) => at)
      const pauses = times.slice(5).map((at, n) => (at - times[n + 4]!) / 1000)
      const expected = [30, 60, 120, 240, 300]
      assert.lengthOf(pauses, expected.length)
      for (const [n, pause] of pauses.entries()) assert.approximately(pause, expected[n]!, 1.1, `pause ${n + 1}`)
      bank.answer = accepts
      yield* TestClock.adjust("6 minutes")
      assert.deepStrictEqual([countOf(world, "indeterminate"), countOf(world, "submitted")], [10, 90])
      assert.lengthOf(logged(world, "Resumed a provider"), 1)
    }))

  const Attempted = Schema.Literals([
    "declared",
    "refused for now",
    "undeclared",
    "other operation",
    "no answer",
    "local failure",
    "of owner 1",
    "of owner 2",
    "of owner 3",
    "of owner 4",
    "of owner 5"
  ])
  const ofOne = Exit.fail(new NotSent({ reason: "no credentials", isLocal: true, isOfOperation: true }))
  const exits: Readonly<Record<typeof Attempted.Type, Exit.Exit<SubmissionAnswer, NotSent | Uncertain>>> = {
    declared: Exit.succeed(acknowledged),
    "refused for now": Exit.fail(new NotSent({ reason: "429", isRefused: true })),
    undeclared: Exit.fail(new Uncertain({ reason: "status 404", isUndeclared: true })),
    "other operation": Exit.succeed(
      SubmissionAnswer.Succeeded({ names: { operation_id: "another", reference: null }, evidence: null })
    ),
    "no answer": Exit.fail(new Uncertain({ reason: "the connection was reset" })),
    "local failure": Exit.fail(new NotSent({ reason: "status 401", isRefused: true, isLocal: true })),
    "of owner 1": ofOne,
    "of owner 2": ofOne,
    "of owner 3": ofOne,
    "of owner 4": ofOne,
    "of owner 5": ofOne
  }
  it.effect.prop(
    "pause the provider until the first declared one, whatever the other probes meet",
    [Schema.Array(Attempted)],
    ([attempts]) =>
      Effect.gen(function*() {
        const pauses = yield* ProviderPauses
        let undeclared = 0
        const owners = new Set<string>()
        let isPaused = false
        for (const attempt of ["undeclared", "undeclared", "undeclared", ...attempts] as const) {
          yield* TestClock.adjust("5 minutes")
          const { limit, probeOf } = yield* pauses.admit(bank, 5)
          assert.strictEqual(limit, probeOf === null ? 5 : 1)
          yield* pauses.observe(bank, probeOf, exits[attempt], {
            id: unknownId,
            resource_owner: ResourceOwner.make(attempt.replaceAll(" ", "-"))
          })
          yield* pauses.release(probeOf)
          if (attempt === "declared" || attempt === "refused for now") {
            undeclared = 0
            owners.clear()
          } else if (attempt === "undeclared" || attempt === "other operation") undeclared++
          else if (exits[attempt] === ofOne) owners.add(attempt)
          if (exits[attempt] === ofOne) isPaused ||= owners.size >= 5
          else isPaused = undeclared >= 5 || attempt === "local failure"
          assert.strictEqual(pauses.reasonOf(bank) !== null, isPaused)
        }
      }).pipe(Effect.provide(ProviderPauses.layer))
  )

  it.effect("cannot surprise many operations at once: five are under way until one answer is declared", () =>
    Effect.gen(function*() {
      const { bank, world } = yield* makeBank()
      const answered = yield* Deferred.make<void>()
      bank.answer = Effect.andThen(Deferred.await(answered), accepts)
      yield* world.acceptMany(20)
      const working = yield* Effect.forkChild(world.work)
      yield* until(() => world.attempts.length === 5)
      yield* TestClock.adjust("1 second")
      assert.lengthOf(world.attempts, 5)
      bank.answer = Effect.never
      yield* Deferred.succeed(answered, undefined)
      yield* until(() => world.attempts.length === 20)
      assert.isUndefined(working.pollUnsafe())
    }))
})
