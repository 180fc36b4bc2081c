/** An answer of the provider that comes after the operation has ended otherwise: no state changes, and the proof is not lost. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { namesNothing, SubmissionAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import { recording } from "../../fixtures/ledger/Queue.ts"
import {
  away,
  makeWorld,
  pending,
  reference,
  type Script,
  succeeded,
  type World
} from "../../fixtures/submission/World.ts"

const failure = { code: "never_received", message: "The bank never received it." }

/** Another component records the failure, and knows no reference. */
const fail = (world: World, id: OperationId, revision: number) =>
  Effect.orDie(world.queue.record(id, revision, { state: "failed", failure }, recording()))

const errorsOf = ({ logs }: World) =>
  logs.filter(({ level }) => level === "ERROR").map(({ annotations, message }) => ({ message, ...annotations }))

/** The proof is beside the operation, which stays as it is. */
const isKept = Effect.fnUntraced(function*(world: World, id: OperationId, proves: string, after: string) {
  assert.strictEqual(yield* world.stateOf(id), "failed")
  assert.isNull(world.recordOf(id).reference)
  assert.deepInclude(world.recordOf(id).reversal?.evidence, { proves, reference })
  assert.deepStrictEqual<ReadonlyArray<object>>(errorsOf(world), [{
    message:
      "The provider proves another outcome than the final one: ask it what it did, and stop a second request of the same",
    operation_id: id,
    provider: "bank",
    proves,
    reference,
    state: "failed"
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
