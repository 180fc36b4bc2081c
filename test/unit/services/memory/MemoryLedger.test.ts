/**
 * The ledger in memory keeps its rules however calls interleave. The tests run fibers with the smallest possible steps.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, References } from "effect"
import { TestClock } from "effect/testing"
import { checkpointOf } from "../../../../src/cluster/witness/Verifications.ts"
import type { ClaimBatch } from "../../../../src/domain/Submission.ts"
import { MemoryLedger } from "../../../../src/services/memory/MemoryLedger.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { makeMemoryVerifications } from "../../../fixtures/cluster/MemoryWitness.ts"
import { accept, drive, InMemoryLedger, issue, newKey, operationIn, outcome } from "../../../fixtures/ledger/Ledger.ts"
import { failOver } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

/**
 * Lets fibers yield to one another every few steps of the runtime. Three is the finest possible interleaving, because
 * yielding and resuming take two steps themselves.
 */
const interleaving = [3, 4, 5, 6, 7, 8, 9, 10]

describe("The ledger in memory", () => {
  it.effect("commits exactly one of several transitions in any interleaving", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      for (const steps of interleaving) {
        const operation = yield* operationIn(identity, "submitting")
        const targets = ["submitted", "succeeded", "failed", "indeterminate"] as const
        const results = yield* Effect.forEach(
          targets,
          (to) => Effect.result(ledger.transition(operation.id, operation.revision, outcome(to), null)),
          { concurrency: "unbounded" }
        ).pipe(Effect.provideService(References.MaxOpsBeforeYield, steps))
        assert.lengthOf(results.filter(({ _tag }) => _tag === "Success"), 1, `every ${steps} steps`)
        assert.lengthOf(yield* ledger.history(operation.id), 3)
      }
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("keeps held what a failover held before its first comparison with a witness, and releases nothing uncompared", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const witness = yield* makeMemoryVerifications
      const { cluster } = yield* MemoryLedger
      const compare = Effect.fnUntraced(function*(batches: ReadonlyArray<ClaimBatch>) {
        const expected = yield* witness.readWitnessState
        const epoch = crypto.randomUUID()
        const { result } = (yield* witness.verify({ expected, epoch, batches, hadEpoch: expected.epoch !== null }))!
        return { epoch, life: expected.life, result }
      })
      yield* accept((yield* issue()).identity)
      yield* failOver
      const first = yield* compare([])
      assert.strictEqual(first.result, "begun")
      const { epoch, life, result } = yield* compare([checkpointOf(first.epoch, first.life)])
      assert.strictEqual(result, "proven")
      assert.strictEqual(yield* witness.releaseProven(epoch, life), 0)

      yield* Effect.sync(() => (cluster.life = "another life"))
      assert.strictEqual(yield* queue.releaseAll, 0)
      yield* compare([checkpointOf(epoch, life)])
      assert.strictEqual(yield* queue.releaseAll, 1)
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("creates exactly one operation for a key in any interleaving", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      for (const steps of interleaving) {
        const key = newKey()
        const results = yield* Effect.all(Array.from({ length: 20 }, () => accept(identity, { key })), {
          concurrency: "unbounded"
        }).pipe(Effect.provideService(References.MaxOpsBeforeYield, steps))
        assert.lengthOf(results.filter(({ created }) => created), 1, `every ${steps} steps`)
      }
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("never sets updated_at before the last change, even if the clock is set back", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      yield* TestClock.setTime(500_000)
      const moved = yield* drive(operation, ["submitting", "succeeded"])
      assert.deepStrictEqual(moved.updated_at, operation.updated_at)
      assert.deepStrictEqual(moved.completed_at, operation.updated_at)
    }).pipe(Effect.provide(InMemoryLedger)))
})
