/**
 * A worker sends only claims whose batch its witness has recorded. The tests answer for the witness and for the ledger.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"
import type { Verifications, WitnessState } from "../../../../src/cluster/witness/Verifications.ts"
import { type WitnessStore, WitnessUnavailable } from "../../../../src/cluster/witness/Witness.ts"
import { makeWitnessedClaims } from "../../../../src/cluster/witness/WitnessedClaims.ts"
import type { Claim, ClaimBatch } from "../../../../src/domain/Submission.ts"
import type { Claims } from "../../../../src/services/queue/Claims.ts"
import { ClaimRecorders } from "../../../../src/submission/attempts/ClaimRecorder.ts"
import { makeMemoryWitness } from "../../../fixtures/cluster/MemoryWitness.ts"

const epoch = "00000000-0000-4000-8000-000000000001"
const agreed: WitnessState = { epoch, life: "life", isCurrent: true, age: 0, isReleaseDue: false }

/** The recorder of a worker, and a claim in a batch of the key that the worker has now. */
const openScene = Effect.fnUntraced(function*(changes: Partial<WitnessStore> = {}) {
  const store = makeMemoryWitness()
  yield* store.fence(null, epoch)
  let state = agreed
  // The cast: only the verifier uses the other statements.
  const verifications = { readWitnessState: Effect.sync(() => state) } as unknown as Verifications
  const recorder = makeWitnessedClaims({ ...store, ...changes }, verifications)
  const batchOf = (batch: number, own: Partial<ClaimBatch> = {}): ClaimBatch => ({
    epoch,
    worker: recorder.terms().recorded_by!,
    life: "life",
    provider: "bank",
    batch,
    ...own
  })
  // The cast: the recorder reads no other member of a claim.
  const claimOf = (batch?: ClaimBatch) => ({ batch }) as Claim
  const refused = (...batches: ReadonlyArray<ClaimBatch | undefined>) =>
    Effect.map(recorder.record(batches.map(claimOf)), (reasons) => batches.map((batch) => reasons.has(batch)))
  return {
    recorder,
    store,
    batchOf,
    refused,
    setState: (next: Partial<WitnessState>) => {
      state = { ...agreed, ...next }
    }
  }
})

const silent = Effect.provide(Logger.layer([]))

describe("A claim of a worker with a witness", () => {
  it.effect("may be sent once the witness has recorded its batch", () =>
    Effect.gen(function*() {
      const { batchOf, refused, store } = yield* openScene()
      assert.deepStrictEqual(yield* refused(batchOf(1)), [false])
      assert.deepStrictEqual(yield* store.batches(epoch), [batchOf(1)])
    }))

  it.effect("is recorded with the last batch of its key, which proves the earlier ones, in any order", () =>
    Effect.gen(function*() {
      const { batchOf, refused, store } = yield* openScene()
      const batches = [batchOf(2), batchOf(3), batchOf(1), batchOf(7, { provider: "other" })]
      assert.deepStrictEqual(yield* refused(...batches), [false, false, false, false])
      assert.sameDeepMembers([...(yield* store.batches(epoch))!], [batchOf(3), batchOf(7, { provider: "other" })])
    }))

  it.effect("is not sent if the witness refuses, fails, dies or does not answer, and others of the call are", () =>
    Effect.gen(function*() {
      const failures: Readonly<Record<string, Effect.Effect<boolean, WitnessUnavailable>>> = {
        refuses: Effect.succeed(false),
        fails: Effect.fail(new WitnessUnavailable({ reason: "no connection" })),
        dies: Effect.die("a defect"),
        "does not answer": Effect.never
      }
      for (const [name, failure] of Object.entries(failures)) {
        const { batchOf, recorder, refused } = yield* openScene({
          record: ({ provider }) => provider === "bank" ? failure : Effect.succeed(true)
        })
        const batches = [batchOf(1), batchOf(2), batchOf(1, { provider: "other" })]
        const { recorded_by: worker } = recorder.terms()
        const recording = yield* Effect.forkChild(refused(...batches), { startImmediately: true })
        yield* TestClock.adjust("3 seconds")
        assert.deepStrictEqual(yield* Fiber.join(recording), [true, true, false], name)
        // A write without an answer may take effect later, and the ledger must not count it for other claims.
        assert.notStrictEqual(recorder.terms().recorded_by, worker, name)
      }
    }).pipe(silent))

  it.effect("is not sent without a batch", () =>
    Effect.gen(function*() {
      const { batchOf, refused } = yield* openScene()
      assert.deepStrictEqual(yield* refused(undefined, batchOf(1)), [true, false])
    }))
})

describe("A worker whose witness did not record a claim", () => {
  it.effect("claims again only once ledger and witness have the same epoch in the present life", () =>
    Effect.gen(function*() {
      const { batchOf, recorder, refused, setState, store } = yield* openScene()
      assert.isTrue(yield* recorder.admits)
      assert.deepStrictEqual(yield* refused(batchOf(1, { epoch: "another" })), [true])
      yield* store.fence(epoch, "next")
      assert.isFalse(yield* recorder.admits, "the ledger has the epoch before")
      setState({ epoch: "next", isCurrent: false })
      assert.isFalse(yield* recorder.admits, "the ledger has it of an earlier life")
      setState({ epoch: "next" })
      assert.isTrue(yield* recorder.admits)
    }).pipe(silent))

  it.effect("claims nothing while the witness does not answer", () =>
    Effect.gen(function*() {
      const { batchOf, recorder, refused } = yield* openScene({
        epoch: Effect.never,
        record: () => Effect.succeed(false)
      })
      yield* refused(batchOf(1))
      const admitted = yield* Effect.forkChild(recorder.admits, { startImmediately: true })
      yield* TestClock.adjust(Duration.seconds(3))
      assert.isFalse(yield* Fiber.join(admitted))
    }).pipe(silent))
})

describe("A worker without a witness", () => {
  it.effect("may send every claim", () =>
    Effect.gen(function*() {
      const recorder = yield* (yield* ClaimRecorders)({} as unknown as Claims["Service"])
      assert.deepStrictEqual(recorder.terms(), {})
      assert.isTrue(yield* recorder.admits)
      assert.strictEqual((yield* recorder.record([{} as Claim])).size, 0)
    }))
})
