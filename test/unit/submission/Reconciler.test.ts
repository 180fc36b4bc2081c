/**
 * The reconciler reads statuses until an outcome is proven, and never sends. The tests run it against a scripted
 * provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { OperationState } from "../../../src/domain/Operation.ts"
import { namesNothing, StatusAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import { Reconciler } from "../../../src/submission/reads/Reconciler.ts"
import { defaultPolicy } from "../../../src/submission/SubmissionPolicy.ts"
import { drive, pathTo } from "../../fixtures/Ledger.ts"
import {
  bank,
  makeWorld,
  reference,
  type Script,
  unclear,
  unreachable,
  until
} from "../../fixtures/submission/World.ts"

const evidence = { status: 200 }
const names = { reference, operation_id: null }
const pending = StatusAnswer.Proven({ state: "submitted", names, evidence })
const succeeded = StatusAnswer.Proven({ state: "succeeded", names, evidence })
const failed = StatusAnswer.Proven({ state: "failed", code: "account_closed", message: "Closed.", names, evidence })
const never = StatusAnswer.NeverReceived({ names: namesNothing, evidence })
const notFound = StatusAnswer.NotProven({ reason: "not_found", detail: "404", names: namesNothing })

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

  it.effect("does not read while the grant, client or provider connection is inactive, and continues afterwards", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("indeterminate", patient)
      const { client_id, provider_connection_id } = world.grant
      yield* world.start(Reconciler.layer)
      const readsIn = Effect.fnUntraced(function*(duration: Duration.Input) {
        const before = world.reads.length
        yield* TestClock.adjust(duration)
        return world.reads.length - before
      })
      assert.isAbove(yield* readsIn("10 minutes"), 0)
      yield* world.grants.setProviderConnected(provider_connection_id, false)
      assert.strictEqual(yield* readsIn("1 day"), 0)
      yield* world.grants.setProviderConnected(provider_connection_id, true)
      assert.isAbove(yield* readsIn("3 hours"), 0)
      yield* world.grants.setClientActive(client_id, false)
      assert.strictEqual(yield* readsIn("1 day"), 0)
      yield* world.grants.setClientActive(client_id, true)
      assert.isAbove(yield* readsIn("3 hours"), 0)
      yield* world.grants.revoke(world.grant.grant_id)
      assert.strictEqual(yield* readsIn("1 day"), 0)
      // A new grant of the same owner, subject, client and provider.
      yield* world.issue({ ...world.grant, expires_in: Duration.days(1000) })
      assert.isAbove(yield* readsIn("3 hours"), 0)
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
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

  it.effect("continues its schedule after a restart, because the schedule is in the store", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("indeterminate")
      const stop = yield* world.start(Reconciler.layer)
      yield* TestClock.adjust("1 hour")
      yield* stop
      const { due_at, reads } = world.recordOf(id)
      assert.isAbove(reads, 8)
      assert.isAbove(due_at!, Duration.toMillis("1 hour"))
      yield* world.start(Reconciler.layer)
      const before = world.reads.length
      yield* TestClock.adjust(due_at! - Duration.toMillis("1 hour") - 1)
      assert.lengthOf(world.reads, before)
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

  it.effect("reads an operation once at a time with any number of reconcilers", () =>
    Effect.gen(function*() {
      let [running, most] = [0, 0]
      const { world } = yield* worldWith("indeterminate", {
        read: () =>
          Effect.suspend(() => {
            most = Math.max(most, ++running)
            return Effect.ensuring(Effect.delay(Effect.succeed(unclear), "10 seconds"), Effect.sync(() => running--))
          })
      })
      for (let n = 0; n < 4; n++) yield* world.start(Reconciler.layer)
      yield* TestClock.adjust("4 minutes")
      assert.isAbove(world.reads.length, 3)
      assert.strictEqual(most, 1)
    }))

  it.effect(
    "never changes a state because of age: after a month, an uncertain operation is only under review",
    () =>
      Effect.gen(function*() {
        for (const state of ["submitted", "indeterminate"] as const) {
          const { id, world } = yield* worldWith(state, { policy: { pollInterval: Duration.hours(1) } })
          yield* world.start(Reconciler.layer)
          const after = Duration.toMillis(defaultPolicy.reviewAfter[state])
          yield* TestClock.adjust(after * 0.7)
          assert.deepInclude(yield* world.show(id), { state, under_review: false })
          yield* TestClock.adjust(Duration.sum(Duration.hours(3), Duration.millis(after * 0.3)))
          assert.deepInclude(yield* world.show(id), { state, under_review: true, revision: pathTo[state].length + 1 })
          yield* TestClock.adjust("30 days")
          assert.deepInclude(yield* world.show(id), { state, under_review: true, revision: pathTo[state].length + 1 })
        }
      }),
    180_000
  )

  it.effect("restarts the age at the last review, and ends a review with the operation", () =>
    Effect.gen(function*() {
      let answer: StatusAnswer = unclear
      const { id, world } = yield* worldWith("indeterminate", { ...patient, read: () => Effect.sync(() => answer) })
      yield* world.start(Reconciler.layer)
      yield* TestClock.adjust("1 hour")
      assert.isTrue((yield* world.show(id)).under_review)
      yield* Effect.orDie(world.ledger.review(id, false))
      yield* TestClock.adjust("10 minutes")
      assert.isFalse((yield* world.show(id)).under_review)
      yield* TestClock.adjust("3 hours")
      assert.isTrue((yield* world.show(id)).under_review)
      answer = succeeded
      yield* TestClock.adjust("2 hours")
      assert.deepInclude(yield* world.show(id), { state: "succeeded", under_review: false })
    }))
})

describe("An operation that was accepted before the database was replaced", () => {
  const heldWith = Effect.fnUntraced(function*(read: () => Effect.Effect<StatusAnswer>) {
    const world = yield* makeWorld({ read })
    const id = yield* world.acceptOne
    world.memory.cluster.timeline++
    return { world, id }
  })

  it.effect("is held: it is not sent, it is under review, and its status is read", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldWith(() => Effect.succeed(notFound))
      assert.strictEqual(yield* world.work, 0)
      yield* world.reconcile
      assert.deepStrictEqual(world.reads.map((read) => read.id), [id])
      assert.deepInclude(yield* world.show(id), { state: "accepted", under_review: true, revision: 1 })
      yield* TestClock.adjust("30 days")
      yield* world.reconcile
      assert.strictEqual(yield* world.work, 0)
      assert.isEmpty(world.attempts)
      assert.strictEqual(yield* world.stateOf(id), "accepted")
    }))

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

  it.effect("moves to the state that the provider proves, without being sent", () =>
    Effect.gen(function*() {
      for (const [answer, state] of [[pending, "submitted"], [succeeded, "succeeded"], [failed, "failed"]] as const) {
        const { id, world } = yield* heldWith(() => Effect.succeed(answer))
        yield* world.reconcile
        assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", state])
        assert.isEmpty(world.attempts)
      }
    }))

  it.effect("is sent when the provider proves that it never received it", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldWith(() => Effect.succeed(never))
      yield* world.reconcile
      assert.strictEqual(yield* world.work, 0, "a claim holder on the old timeline may still send")
      assert.deepInclude(yield* world.show(id), { state: "accepted", under_review: true })
      yield* TestClock.adjust(world.policy.rescueAfter)
      yield* world.reconcile
      assert.deepInclude(yield* world.show(id), { state: "accepted", under_review: false })
      assert.strictEqual(yield* world.work, 1)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
      assert.lengthOf(world.attempts, 1)
    }))

  it.effect("is sent when an operator releases it", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldWith(() => Effect.succeed(unclear))
      yield* world.reconcile
      yield* TestClock.adjust(world.policy.rescueAfter)
      yield* Effect.orDie(world.queue.release(id))
      assert.strictEqual(yield* world.work, 1)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))
})

describe("A failure that a status read proves", () => {
  it.effect("is logged at WARN, with provider, operation and code, and without the provider's message", () =>
    Effect.gen(function*() {
      const { id, world } = yield* worldWith("submitted", { read: () => Effect.succeed(failed) })
      yield* TestClock.adjust("1 hour")
      yield* world.reconcile
      const lines = world.logs.filter(({ message }) => message === "Operation failed")
      assert.deepStrictEqual(lines.map(({ annotations, level }) => [level, annotations]), [
        ["WARN", { operation_id: id, provider: bank, code: "account_closed" }]
      ])
    }))

  it.effect("has the normalized code of the provider, which is logged once", () =>
    Effect.gen(function*() {
      const read = StatusAnswer.Proven({ state: "failed", code: "R-01", message: "Closed.", names, evidence })
      const { id, world } = yield* worldWith("submitted", { read: () => Effect.succeed(read) })
      yield* TestClock.adjust("1 hour")
      yield* world.reconcile
      assert.deepStrictEqual((yield* world.show(id)).failure, { code: "r_01", message: "Closed." })
      const lines = world.logs.filter(({ annotations }) => annotations["given"] === "R-01")
      assert.deepStrictEqual(lines.map(({ annotations }) => annotations["said"]), ["status read"])
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

  it.effect("are logged when they begin, and not with each read", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* linesAfter("1 hour", wrongKey, wrongKey, wrongKey), [key])
    }))

  it.effect("are logged when the detail changes", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* linesAfter("1 hour", wrongKey, unreachable, unreachable, wrongKey), [
        key,
        network,
        key
      ])
    }))

  it.effect("end with a read that proves something, which is logged once", () =>
    Effect.gen(function*() {
      const lines = yield* linesAfter("1 hour", wrongKey, pending, pending, wrongKey)
      assert.deepStrictEqual(lines, [key, ["INFO", undefined], key])
    }))

  it.effect("are logged at most every ten minutes if other reads prove something meanwhile", () =>
    Effect.gen(function*() {
      const answers = Array.from({ length: 8 }, () => [wrongKey, pending]).flat()
      const lines = yield* linesAfter("1 minute", ...answers)
      assert.deepStrictEqual(lines, [key, ["INFO", undefined], key, ["INFO", undefined]])
    }))

  it.effect("do not stop the reconciler if the detail is no text", () =>
    Effect.gen(function*() {
      const untyped = StatusAnswer.NotProven({ reason: "unclear", detail: undefined as never })
      assert.deepStrictEqual(yield* linesAfter("1 hour", untyped, untyped), [["WARN", "(undefined)"]])
    }))

  it.effect("do not begin or end with \"not found\"", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* linesAfter("1 hour", notFound, wrongKey, notFound, wrongKey), [key])
    }))
})
