/**
 * The reconciler reads statuses until an outcome is proven, and never sends. The tests run it against a scripted
 * provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { OperationState } from "../../../../src/domain/Operation.ts"
import { NextRequest, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { drive, pathTo } from "../../../fixtures/ledger/Ledger.ts"
import {
  bank,
  makeWorld,
  neverReceived,
  notFound,
  pending,
  type Script,
  succeeded,
  unclear,
  unreachable,
  until
} from "../../../fixtures/submission/World.ts"

/** An operation in this state, and a provider that answers as scripted. */
const worldWith = Effect.fnUntraced(function*(state: OperationState, script: Script = {}) {
  const world = yield* makeWorld(script)
  const id = yield* world.acceptOne
  yield* world.inside(drive(yield* world.show(id), pathTo[state]))
  return { world, id }
})

/** For tests that take days: polling every second would take too long. */
const patient = { policy: { pollInterval: Duration.minutes(2) } }

describe("The reconciler", () => {
  it.effect("reads until the outcome is proven, and never after that", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("indeterminate", {
        ...patient,
        read: (read) => Effect.succeed([notFound, unreachable, pending, unclear, succeeded][read - 1]!)
      })
      yield* world.start(Reconciler.layer)
      yield* TestClock.adjust("1 day")
      assert.deepStrictEqual(yield* world.historyOf(id), [
        "accepted",
        "submitting",
        "indeterminate",
        "submitted",
        "succeeded"
      ])
      assert.lengthOf(world.reads, 5)
      assert.isEmpty(world.attempts)
    }))

  it.effect("makes submitted operations indeterminate after any network failure", () =>
    Effect.gen(function*() {
      const failures: ReadonlyArray<() => Effect.Effect<StatusAnswer>> = [
        () => Effect.succeed(unreachable),
        () => Effect.never,
        () => Effect.die(new Error("Bearer hunter2")),
        () => Effect.sync(() => JSON.parse("{"))
      ]
      for (const read of failures) {
        const { id, world } = yield* worldWith("submitted", { read })
        const reading = yield* Effect.forkChild(world.reconcile)
        yield* TestClock.adjust(world.policy.readTimeout)
        yield* Fiber.join(reading)
        assert.strictEqual(yield* world.stateOf(id), "indeterminate")
        assert.notMatch(JSON.stringify(yield* world.evidenceOf(id)), /hunter2/)
      }
    }))

  it.effect("leaves a submitted operation as it is if the time ends after a first answer, because that is no network failure", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("submitted", {
        read: () => Effect.andThen(Effect.flatten(NextRequest), Effect.never)
      })
      const reading = yield* Effect.forkChild(world.reconcile)
      yield* TestClock.adjust(world.policy.readTimeout)
      yield* Fiber.join(reading)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  it.effect("gives all pages of a read one readTimeout, within its lease, so that no second read begins meanwhile", () =>
    Effect.gen(function*() {
      let pages = 0
      const { id, world } = yield* worldWith("submitted", {
        read: () =>
          Effect.gen(function*() {
            for (let page = 1; page <= 8; page++) {
              assert.isTrue(page === 1 || (yield* yield* NextRequest))
              pages++
              yield* Effect.sleep("4 seconds")
            }
            return pending
          })
      })
      const reading = yield* Effect.forkChild(world.reconcile)
      yield* TestClock.adjust(Duration.subtract(world.policy.readTimeout, Duration.millis(1)))
      yield* world.reconcile
      assert.strictEqual(pages, 4, "each of them read by the first read")
      assert.isAbove(world.recordOf(id).due_at!, yield* Clock.currentTimeMillis, "under the lease of that read")
      yield* TestClock.adjust("1 milli")
      yield* Fiber.join(reading)
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual(pages, 4, "the time has ended")
      assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  it.effect("changes nothing when the circuit blocks the read", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("submitted", { read: () => Effect.succeed(unreachable) })
      const others = yield* world.acceptMany(5)
      for (const other of others) yield* world.inside(drive(yield* world.show(other), pathTo.submitted))
      // The five others open the circuit. This operation is read last, because it is due last.
      world.memory.operations.set(id, { ...world.recordOf(id), due_at: 1000 })
      yield* world.reconcile
      yield* TestClock.adjust("990 millis")
      assert.lengthOf(world.reads, 5)
      world.memory.operations.set(id, { ...world.recordOf(id), due_at: 990 })
      assert.strictEqual(yield* world.inside(world.reconciler.runOnce(world.grant.provider, 1)), 1)
      assert.lengthOf(world.reads, 5)
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
      assert.isAbove(world.recordOf(id).due_at!, 990)
    }))

  it.effect("reads at growing intervals up to the longest, and never stops", () =>
    Effect.gen(function*() {
      const { world } = yield* worldWith("indeterminate", { policy: { pollInterval: Duration.seconds(20) } })
      yield* world.start(Reconciler.layer)
      yield* TestClock.adjust("2 days")
      const { first, factor, jitter, longest } = world.policy.readSchedule
      const pauses = world.reads.slice(1).map(({ at }, n) => at - world.reads[n]!.at)
      const tolerance = Duration.toMillis(world.policy.pollInterval)
      for (const [n, pause] of pauses.entries()) {
        const pure = Math.min(Duration.toMillis(first) * factor ** (n + 1), Duration.toMillis(longest))
        assert.isAtLeast(pause, pure * (1 - jitter) - 1, `after read ${n + 1}`)
        assert.isAtMost(pause, pure * (1 + jitter) + tolerance, `after read ${n + 1}`)
      }
      assert.isAbove(pauses.length, 48)
    }))

  it.effect("repeats a read that was interrupted by a stop, once the lease has passed", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("submitted", {
        read: (read) => read === 1 ? Effect.never : Effect.succeed(succeeded)
      })
      const stop = yield* world.start(Reconciler.layer)
      yield* until(() => world.reads.length === 1)
      yield* stop
      assert.strictEqual(yield* world.stateOf(id), "submitted")
      yield* world.start(Reconciler.layer)
      const { readTimeout, storeTimeout } = world.policy
      yield* TestClock.adjust(Duration.sum(readTimeout, Duration.times(storeTimeout, 3)))
      assert.strictEqual(yield* world.stateOf(id), "succeeded")
    }))
})

describe("An operation that was accepted before the database was replaced", () => {
  const heldWith = Effect.fnUntraced(function*(read: () => Effect.Effect<StatusAnswer>) {
    const world = yield* makeWorld({ read })
    const id = yield* world.acceptOne
    world.memory.cluster.timeline++
    return { world, id }
  })

  it.effect("shares the read limit with submitted operations, and each group uses what the other leaves", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld()
      const submitted = yield* world.acceptMany(8)
      yield* world.work
      const held = yield* world.acceptMany(8)
      world.memory.cluster.timeline++
      yield* TestClock.adjust("1 hour")
      const readNext = (limit: number) =>
        Effect.map(world.inside(world.reconciler.runOnce(bank, limit)), () => {
          const ids = world.reads.splice(0).map(({ id }) => id)
          return [ids.filter((id) => submitted.includes(id)).length, ids.filter((id) => held.includes(id)).length]
        })
      assert.deepStrictEqual(yield* readNext(6), [3, 3])
      assert.deepStrictEqual(yield* readNext(6), [3, 3])
      assert.deepStrictEqual(yield* readNext(6), [2, 2])
      yield* TestClock.adjust("3 hours")
      yield* Effect.forEach(submitted, (id) => world.ledger.transition(id, 3, { state: "succeeded" }, { by: "test" }))
      assert.deepStrictEqual(yield* readNext(6), [0, 6])
    }))

  it.effect("is sent when the provider proves that it never received it", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldWith(() => Effect.succeed(neverReceived))
      yield* world.reconcile
      assert.strictEqual(yield* world.work, 0, "a claim holder on the old timeline may still send")
      assert.deepInclude(yield* world.show(id), { state: "accepted", under_review: true })
      yield* TestClock.adjust(Duration.sum(world.policy.rescueAfter, Duration.millis(2)))
      yield* world.reconcile
      assert.deepInclude(yield* world.show(id), { state: "accepted", under_review: false })
      assert.strictEqual(yield* world.work, 1)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
      assert.lengthOf(world.attempts, 1)
    }))
})

describe("Status reads without a usable answer", () => {
  const wrongKey = StatusAnswer.NotProven({ reason: "unclear", detail: "the provider refused the credentials" })
  const failing = "Status reads of a provider give no usable answer"
  const again = "Status reads of a provider give usable answers again"

  /** Reads one operation with each of these answers in turn. Yields the level and detail of each line about reads. */
  const linesAfter = Effect.fnUntraced(function*(pause: Duration.Input, ...answers: ReadonlyArray<StatusAnswer>) {
    const { id, world } = yield* worldWith("indeterminate", { read: (read) => Effect.succeed(answers[read - 1]!) })
    for (let n = 0; n < answers.length; n++) {
      yield* TestClock.adjust(pause)
      world.memory.operations.set(id, { ...world.recordOf(id), due_at: 0 })
      yield* world.reconcile
    }
    assert.lengthOf(world.reads, answers.length)
    const lines = world.logs.filter(({ message }) => [failing, again].some((text) => String(message).startsWith(text)))
    for (const { annotations } of lines) {
      assert.deepInclude(annotations, { operation_id: id, provider: bank })
    }
    return lines.map(({ annotations, level }) => [level, annotations["detail"]])
  })
  const [key, network] = [["WARN", wrongKey.detail], ["WARN", unreachable.detail]]
  const usable = ["INFO", undefined]
  const untyped = StatusAnswer.NotProven({ reason: "unclear", detail: undefined as never })

  const logged: ReadonlyArray<readonly [string, ReadonlyArray<StatusAnswer>, ReadonlyArray<unknown>]> = [
    ["are logged when they begin, and not with each read", [wrongKey, wrongKey, wrongKey], [key]],
    ["are logged when the detail changes", [wrongKey, unreachable, unreachable, wrongKey], [key, network, key]],
    ["end with a read that proves something, which is logged once", [wrongKey, pending, pending, wrongKey], [
      key,
      usable,
      key
    ]],
    ["do not stop the reconciler if the detail is no text", [untyped, untyped], [["WARN", "(undefined)"]]],
    ["do not begin or end with \"not found\"", [notFound, wrongKey, notFound, wrongKey], [key]]
  ]
  it.effect.each(logged)(
    "%s",
    ([, answers, lines]) =>
      Effect.map(linesAfter("1 hour", ...answers), (actual) => assert.deepStrictEqual(actual, lines))
  )

  it.effect("are logged at most every ten minutes if other reads prove something meanwhile", () =>
    Effect.gen(function*() {
      const answers = Array.from({ length: 8 }, () => [wrongKey, pending]).flat()
      const lines = yield* linesAfter("1 minute", ...answers)
      assert.deepStrictEqual(lines, [key, usable, key, usable])
    }))
})
