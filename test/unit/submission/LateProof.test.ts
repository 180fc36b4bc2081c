/** An answer of the provider that comes after the operation has ended otherwise: no state changes, and the proof is not lost. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { TestClock } from "effect/testing"
import type { OperationId } from "../../../src/domain/Operation.ts"
import * as SubmissionMetrics from "../../../src/metrics/SubmissionMetrics.ts"
import { namesNothing, SubmissionAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import { late, recording } from "../../fixtures/ledger/Queue.ts"
import { parseScrape } from "../../fixtures/metrics/Scrape.ts"
import {
  acknowledged,
  away,
  failed,
  makeWorld,
  neverReceived,
  pending,
  reference,
  type Script,
  succeeded,
  unclear,
  workFor,
  type World
} from "../../fixtures/submission/World.ts"

const failure = { code: "never_received", message: "The bank never received it." }

/** Another component records the failure, and knows no reference. */
const fail = (world: World, id: OperationId, revision: number) =>
  Effect.orDie(world.queue.record(id, revision, { state: "failed", failure }, recording()))

const proven =
  "The provider proves another outcome or order than the recorded one: ask it what it did, and stop a second request of the same"

const errorsOf = ({ logs }: World) =>
  logs.filter(({ level }) => level === "ERROR").map(({ annotations, message }) => ({ message, ...annotations }))

/** The proof is beside the operation, which stays as it is. */
const isKept = Effect.fnUntraced(function*(world: World, id: OperationId, proves: string, after: string) {
  assert.strictEqual(yield* world.stateOf(id), "failed")
  assert.isNull(world.recordOf(id).reference)
  assert.deepInclude(world.recordOf(id).reversal?.evidence, { proves, reference })
  assert.deepStrictEqual<ReadonlyArray<object>>(errorsOf(world), [{
    message: proven,
    operation_id: id,
    provider: "bank",
    proves,
    reference,
    state: "failed",
    known_reference: null
  }])
  assert.deepStrictEqual(yield* world.historyOf(id), [
    "accepted",
    "submitting",
    ...after === "" ? [] : [after],
    "failed"
  ])
})

/** An operation that failed between the question to the provider and its answer. */
const failedDuringRead = Effect.fnUntraced(function*(script: Script, after: "submitted" | "indeterminate") {
  const world: World = yield* makeWorld(script)
  const id = yield* world.acceptOne
  yield* world.work
  yield* TestClock.adjust("40 seconds")
  const reading = yield* Effect.forkChild(world.reconcile)
  yield* TestClock.adjust("5 seconds")
  const { revision, state } = yield* world.show(id)
  assert.strictEqual(state, after)
  yield* fail(world, id, revision)
  yield* TestClock.adjust("2 minutes")
  yield* Fiber.join(reading)
  return { id, world }
})

describe("The proof that comes late", () => {
  it.effect("as the answer to a submission is kept, though the ledger is away for some seconds", () =>
    Effect.gen(function*() {
      let calls = 0
      const world: World = yield* makeWorld({
        submit: (_, { id }) =>
          Effect.as(
            Effect.suspend(() => fail(world, id, 2)),
            SubmissionAnswer.Succeeded({ names: { reference, operation_id: null }, evidence: { paid: true } })
          ),
        queue: (queue) => ({
          contradict: (...given) => Effect.suspend(() => calls++ < 2 ? away : queue.contradict(...given))
        })
      })
      const id = yield* world.acceptOne
      const working = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(working)
      yield* isKept(world, id, "succeeded", "")
    }))

  it.effect("as the name of a second payment is in the log alone, because it reverses nothing", () =>
    Effect.gen(function*() {
      const first = "ref-0" as typeof reference
      const world: World = yield* makeWorld({
        submit: (_, { id }) =>
          Effect.as(
            Effect.orDie(world.queue.record(id, 2, { state: "succeeded" }, recording({ reference: first }))),
            acknowledged
          )
      })
      const id = yield* world.acceptOne
      yield* world.work
      assert.deepInclude(world.recordOf(id), { reference: first, reversal: null })
      assert.deepStrictEqual<ReadonlyArray<object>>(errorsOf(world), [{
        message: proven,
        operation_id: id,
        provider: "bank",
        proves: "submitted",
        reference,
        state: "succeeded",
        known_reference: first
      }])
    }))

  const success = { state: "succeeded" } as const
  const paid = SubmissionAnswer.Succeeded({ names: { reference, operation_id: null }, evidence: {} })
  const rejected = SubmissionAnswer.Rejected({ code: "account_closed", names: namesNothing, evidence: {} })
  const [payment, reversal] = [[1, 0], [0, 1]] as const

  it.effect.each(
    [
      ["a success of an operation that failed", { state: "failed", failure }, paid, payment],
      ["a receipt of an operation that failed", { state: "failed", failure }, acknowledged, payment],
      ["a second payment", success, paid, payment],
      ["a failure of a success", success, rejected, reversal]
    ] as const
  )(
    "as %s counts as a payment only if money may have left, and else as a reversal",
    ([, outcome, answer, counts]) =>
      Effect.gen(function*() {
        const first = "ref-0" as typeof reference
        const world: World = yield* makeWorld({
          submit: (_, { id }) =>
            Effect.as(Effect.orDie(world.queue.record(id, 2, outcome, recording({ reference: first }))), answer)
        })
        yield* world.acceptOne
        yield* world.work
        const scrape = parseScrape(yield* PrometheusMetrics.format())
        assert.deepStrictEqual<ReadonlyArray<number>>(
          ["gateway_unexpected_payments_total", "gateway_reversals_total"].map((metric) => scrape.total(metric)),
          counts
        )
      }).pipe(
        Effect.provide(SubmissionMetrics.layer),
        Effect.provideService(Metric.MetricRegistry, new Map())
      )
  )

  it.effect("as a status read is kept", () =>
    Effect.gen(function*() {
      const { id, world } = yield* failedDuringRead({
        submit: () => Effect.die("lost"),
        read: () => Effect.delay(Effect.succeed(succeeded), "10 seconds")
      }, "indeterminate")
      yield* isKept(world, id, "succeeded", "indeterminate")
    }))

  it.effect("as a reference that a status read finds is kept", () =>
    Effect.gen(function*() {
      const { id, world } = yield* failedDuringRead({
        submit: () =>
          // As an adapter without type checks: the status read brings the first reference.
          Effect.succeed(SubmissionAnswer.Acknowledged({
            names: namesNothing as never,
            evidence: { status: "pending" }
          })),
        read: () => Effect.delay(Effect.succeed(pending), "10 seconds")
      }, "submitted")
      yield* isKept(world, id, "submitted", "submitted")
    }))
})

const lost = "An answer of the provider is not recorded: compare it with the operation"

/** The store is away from one worker for so long that another process rescues its claim; its answer comes after that. */
const rescuedMeanwhile = Effect.fnUntraced(function*(answer: SubmissionAnswer) {
  let isAway = true
  const world: World = yield* makeWorld({
    account: () => "bank.example 4711",
    submit: () => Effect.succeed(answer),
    read: () => Effect.succeed(neverReceived),
    queue: (queue) => ({ record: (...given) => Effect.suspend(() => isAway ? away : queue.record(...given)) })
  })
  const id = yield* world.acceptOne
  const working = yield* Effect.forkChild(world.work)
  yield* TestClock.adjust("91 seconds")
  yield* world.rescue
  isAway = false
  yield* TestClock.adjust("3 seconds")
  yield* Fiber.join(working)
  yield* TestClock.adjust("1 minute")
  yield* world.reconcile
  return { id, world }
})

const nameless = { names: namesNothing, evidence: { saw: "it" } }

describe("The proof of an operation that is not final", () => {
  it.effect("as a success without a reference is in the log, and no later not found ends the operation", () =>
    Effect.gen(function*() {
      const { id, world } = yield* rescuedMeanwhile(SubmissionAnswer.Succeeded(nameless))
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
      assert.deepStrictEqual(errorsOf(world).map(({ message }) => message), [lost])
    }))

  it.effect("as a refusal without a reference is in the log", () =>
    Effect.gen(function*() {
      const answer = SubmissionAnswer.Rejected({ code: "account_closed", ...nameless })
      const { world } = yield* rescuedMeanwhile(answer)
      assert.deepStrictEqual(errorsOf(world).map(({ message }) => message), [lost])
    }))

  it.effect("as a reference is kept, and no log calls it lost", () =>
    Effect.gen(function*() {
      const { id, world } = yield* rescuedMeanwhile(acknowledged)
      assert.deepInclude(world.recordOf(id), { reference, acknowledged: true })
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
      assert.deepStrictEqual(errorsOf(world), [])
    }))

  /** A second order: the ERROR has both references. */
  const isSecondOrder = (world: World, id: OperationId, proves: string, state: string) =>
    assert.deepStrictEqual<ReadonlyArray<object>>(errorsOf(world), [{
      message: proven,
      operation_id: id,
      provider: "bank",
      proves,
      reference,
      state,
      known_reference: "ref-0"
    }])

  const first = "ref-0" as typeof reference

  it.effect("as the answer to a submission with another reference is in the log with both", () =>
    Effect.gen(function*() {
      const world: World = yield* makeWorld({
        submit: (_, { id }) =>
          Effect.as(
            Effect.orDie(world.queue.record(id, 2, { state: "submitted" }, recording({ reference: first }))),
            acknowledged
          )
      })
      const id = yield* world.acceptOne
      yield* world.work
      isSecondOrder(world, id, "submitted", "submitted")
      assert.isTrue((yield* world.show(id)).under_review)
    }))

  it.effect("as a status read with another reference is in the log with both", () =>
    Effect.gen(function*() {
      const world: World = yield* makeWorld({
        submit: () => Effect.die("lost"),
        read: (_, { id }) => Effect.as(Effect.orDie(world.queue.report(id, late(first))), succeeded)
      })
      const id = yield* world.acceptOne
      yield* world.work
      yield* TestClock.adjust("1 minute")
      yield* world.reconcile
      isSecondOrder(world, id, "succeeded", "indeterminate")
    }))
})

/** An operation that a failover made `accepted` again, examined: after two minutes, an operator may release it. */
const heldForTwoMinutes = Effect.fnUntraced(function*(script: Script) {
  const world: World = yield* makeWorld({
    read: (n) => n === 1 ? Effect.succeed(unclear) : Effect.delay(Effect.succeed(succeeded), "10 seconds"),
    ...script
  })
  const id = yield* world.acceptOne
  world.memory.cluster.timeline++
  yield* world.reconcile
  yield* TestClock.adjust("2 minutes")
  return { id, world }
})

/** A release while the reconciler waits for the answer. */
const releasedDuringRead = Effect.fnUntraced(function*(world: World, release: Effect.Effect<unknown, unknown>) {
  const reading = yield* Effect.forkChild(world.reconcile)
  yield* TestClock.adjust("5 seconds")
  yield* Effect.orDie(release)
  return reading
})

const isHeldAgain = Effect.fnUntraced(function*(world: World, id: OperationId, sent: number) {
  yield* world.work
  assert.strictEqual(yield* world.stateOf(id), "accepted")
  assert.deepInclude(world.recordOf(id), { hold_placed: true, reference })
  assert.lengthOf(world.attempts, sent)
  assert.deepStrictEqual(errorsOf(world), [])
})

describe("The proof of an operation that is accepted again", () => {
  it.effect("as the answer to a submission holds it, though the ledger is away for some minutes", () =>
    Effect.gen(function*() {
      let reports = 0
      const world: World = yield* makeWorld({
        submit: (_, { id }) =>
          Effect.sync(() => {
            // The failover lost the claim, and an operator released what it made of the operation.
            world.memory.operations.set(id, before)
            return acknowledged
          }),
        queue: (queue) => ({
          report: (...given) => Effect.suspend(() => reports++ < 100 ? away : queue.report(...given))
        })
      })
      const id = yield* world.acceptOne
      const before = world.recordOf(id)
      yield* workFor(world, "5 minutes")
      yield* isHeldAgain(world, id, 1)
    }))

  it.effect("as a success without a reference holds it until its own release, and the log tells it", () =>
    Effect.gen(function*() {
      const world: World = yield* makeWorld({
        submit: (_, { id }) =>
          Effect.sync(() => {
            world.memory.operations.set(id, before)
            world.memory.cluster.timeline++
            return SubmissionAnswer.Succeeded(nameless)
          })
      })
      const id = yield* world.acceptOne
      const before = world.recordOf(id)
      yield* world.work
      assert.strictEqual(yield* world.queue.releaseAll, 0)
      yield* world.work
      assert.lengthOf(world.attempts, 1)
      const told = world.logs.filter(({ message }) => /is accepted again: it is held/.test(String(message)))
      assert.deepStrictEqual(told.map(({ level }) => level), ["WARN"])
      assert.deepStrictEqual(errorsOf(world).map(({ message }) => message), [lost])
    }))

  for (const way of ["release", "releaseAll"] as const) {
    it.effect(`as a status read holds it after a ${way} meanwhile`, () =>
      Effect.gen(function*() {
        const { id, world } = yield* heldForTwoMinutes({})
        const reading = yield* releasedDuringRead(
          world,
          way === "release" ? world.queue.release(id) : world.queue.releaseAll
        )
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(reading)
        yield* isHeldAgain(world, id, 0)
      }))
  }

  it.effect("as a failure that a status read finds is not logged as the outcome, because it is none", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldForTwoMinutes({
        read: (n) => n === 1 ? Effect.succeed(unclear) : Effect.delay(Effect.succeed(failed), "10 seconds")
      })
      const reading = yield* releasedDuringRead(world, world.queue.release(id))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(reading)
      yield* isHeldAgain(world, id, 0)
      assert.notInclude(world.logs.map(({ message }) => String(message)), "Operation failed")
    }))

  it.effect("is in the log if another worker has claimed it, which may send it again", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldForTwoMinutes({
        submit: () => Effect.delay(Effect.succeed(acknowledged), "20 seconds")
      })
      const reading = yield* releasedDuringRead(world, world.queue.release(id))
      yield* workFor(world, "20 seconds")
      yield* Fiber.join(reading)
      assert.deepStrictEqual<ReadonlyArray<object>>(errorsOf(world), [{
        message: lost,
        operation_id: id,
        provider: "bank",
        proves: "succeeded",
        reference,
        cause: "another worker has claimed the operation, and may send it again"
      }])
    }))

  it.effect("is in the log if the process stops before the ledger takes it", () =>
    Effect.gen(function*() {
      const { id, world } = yield* heldForTwoMinutes({ queue: () => ({ report: () => away }) })
      const reading = yield* releasedDuringRead(world, world.queue.release(id))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.interrupt(reading)
      assert.deepStrictEqual(errorsOf(world).map(({ message }) => message), [lost])
    }))
})
