/**
 * The verifier fences the witness before it reads, compares once, and releases only what the witness has recorded. The tests answer
 * for the witness and for the ledger, and read the order of the steps.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import {
  checkpointOf,
  type VerificationResult,
  type Verifications,
  type WitnessState
} from "../../../../src/cluster/witness/Verifications.ts"
import { WitnessPolicy, type WitnessStore, WitnessUnavailable } from "../../../../src/cluster/witness/Witness.ts"
import { verifyWitness } from "../../../../src/cluster/witness/WitnessVerifier.ts"
import type { ClaimBatch } from "../../../../src/domain/Submission.ts"

const life = "life"
const [known, other] = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"]
const sent: ClaimBatch = { epoch: known, worker: "worker", life, provider: "bank", batch: 3 }

const policy = {
  timeout: Duration.seconds(2),
  interval: Duration.seconds(1),
  patience: Duration.seconds(5),
  compactAfter: Duration.minutes(10),
  mostBatches: 1000
}

interface Answers {
  readonly result?: VerificationResult
  readonly state?: Partial<WitnessState>
  readonly epoch?: string | null
  /** After the first fence. Default: the same. */
  readonly nextEpoch?: string
  readonly batches?: ReadonlyArray<ClaimBatch> | null
  readonly store?: Partial<WitnessStore>
}

/** Runs the verifier for a while. Returns its steps in order, apart from the look at both sides with which each round begins. */
const stepsOf = Effect.fnUntraced(function*(answers: Answers, time: Duration.Input = "10 millis") {
  const { batches = [], epoch = known, nextEpoch = epoch, result = "proven", state, store } = answers
  const steps: Array<string> = []
  const step = <A>(name: string, answer: A) =>
    Effect.sync(() => {
      steps.push(name)
      return answer
    })
  const noted = <A, E>(name: string, effect: Effect.Effect<A, E>) => Effect.andThen(step(name, null), effect)
  const witness: WitnessStore = {
    epoch: Effect.sync(() => steps.includes("fence") ? nextEpoch : epoch),
    fence: (from, to) => noted("fence", store?.fence?.(from, to) ?? Effect.succeed(true)),
    batches: (of) => noted("batches", store?.batches?.(of) ?? Effect.succeed(batches)),
    record: (batch) => noted("record", store?.record?.(batch) ?? Effect.succeed(true)),
    compact: (checkpoint) => noted("compact", store?.compact?.(checkpoint) ?? Effect.succeed(true))
  }
  const verifications: Verifications = {
    readWitnessState: Effect.succeed({
      epoch: known,
      life,
      isCurrent: false,
      age: 0,
      isReleaseDue: false,
      ...state
    }),
    verify: () => step("verify", { result, held: 0, missing: [] }),
    releaseProven: () => step("release", 2),
    forgetBatches: () => step("forget", undefined)
  }
  yield* Effect.scoped(Effect.gen(function*() {
    yield* verifyWitness(witness, verifications)
    yield* TestClock.adjust(time)
  })).pipe(
    Effect.provideService(WitnessPolicy, policy),
    Effect.provide(Logger.layer([]))
  )
  return steps
})

const failing = Effect.fail(new WitnessUnavailable({ reason: "no connection" }))

describe("A comparison of ledger and witness", () => {
  it.effect("fences the witness before it reads the batches, and compares after both", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf({}), ["fence", "batches", "verify", "record", "release"])
    }))

  it.effect("does not happen if another verifier fenced first, or the witness fails", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf({ store: { fence: () => Effect.succeed(false) } }), ["fence"])
      assert.deepStrictEqual(yield* stepsOf({ store: { fence: () => failing } }), ["fence"])
      assert.deepStrictEqual(yield* stepsOf({ batches: null }), ["fence", "batches"])
      assert.deepStrictEqual(yield* stepsOf({ store: { batches: () => failing } }), ["fence", "batches"])
    }))

  it.effect("waits while the witness has an epoch that the ledger lacks, at least for its patience", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf({ epoch: other }, "4900 millis"), [])
      assert.include(yield* stepsOf({ epoch: other }, "11 seconds"), "fence")
    }))

  it.effect.each<[result: VerificationResult, earliest: number, latest: number]>([
    ["proven", 5, 10],
    ["unsettled", 5, 10],
    ["missing", 30, 60],
    ["unprovable", 30, 60]
  ])(
    "that was %s is followed by one of another epoch after %i to %i seconds",
    ([result, earliest, latest]) =>
      Effect.gen(function*() {
        const fences = (seconds: number) =>
          Effect.map(
            stepsOf({ result, nextEpoch: other }, Duration.seconds(seconds)),
            (steps) => steps.filter((step) => step === "fence").length
          )
        // A look each second finds the other epoch, and a later one that it has lasted.
        assert.strictEqual(yield* fences(earliest + 0.9), 1)
        assert.isAbove(yield* fences(latest + 2), 1)
      })
  )

  it.effect("does not happen while both have the same epoch in the present life", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf({ state: { isCurrent: true } }, "30 seconds"), [])
    }))
})

describe("A release of what the timeline alone holds", () => {
  it.effect("does not happen if the witness did not record the checkpoint", () =>
    Effect.gen(function*() {
      const compared = ["fence", "batches", "verify", "record"]
      const isRefused = { record: () => Effect.succeed(false) }
      assert.deepStrictEqual(yield* stepsOf({ batches: [sent], store: isRefused }), [...compared, "batches"])
      assert.deepStrictEqual(yield* stepsOf({ store: { record: () => failing } }), compared)
    }))

  it.effect("happens if an earlier call recorded the checkpoint, and its answer was lost", () =>
    Effect.gen(function*() {
      const steps = yield* stepsOf({
        store: {
          record: () => Effect.succeed(false),
          batches: (epoch) => Effect.succeed([sent, checkpointOf(epoch, life)])
        }
      })
      assert.deepStrictEqual(steps, ["fence", "batches", "verify", "record", "batches", "release"])
    }))

  it.effect("that is due from an earlier comparison happens after the checkpoint, too", () =>
    Effect.gen(function*() {
      const state = { isCurrent: true, isReleaseDue: true }
      assert.deepStrictEqual(yield* stepsOf({ state }), ["record", "release"])
      const isRefused = { record: () => Effect.succeed(false) }
      assert.deepStrictEqual(yield* stepsOf({ state, store: isRefused }), ["record", "batches"])
    }))

  it.effect("follows only a proof, and a history that lost claims records no checkpoint", () =>
    Effect.gen(function*() {
      const compared = ["fence", "batches", "verify"]
      for (const result of ["begun", "unsettled", "unprovable"] as const) {
        assert.deepStrictEqual(yield* stepsOf({ result }), [...compared, "record"], result)
      }
      assert.deepStrictEqual(yield* stepsOf({ result: "missing" }), compared)
    }))
})

describe("The batches of earlier epochs", () => {
  const state = { isCurrent: true, age: Duration.toMillis(policy.compactAfter) }
  const old = { ...sent, epoch: other }

  it.effect("are forgotten by the ledger after the witness has forgotten them", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf({ state, batches: [old, sent] }), ["batches", "compact", "forget"])
      const isRefused = { compact: () => Effect.succeed(false) }
      assert.deepStrictEqual(yield* stepsOf({ state, batches: [old], store: isRefused }), ["batches", "compact"])
    }))

  it.effect("are kept if there are none, and while the epoch is young", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf({ state, batches: [sent] }), ["batches"])
      assert.deepStrictEqual(yield* stepsOf({ state: { ...state, age: state.age - 1 }, batches: [old] }), [])
    }))

  it.effect("end their epoch once the witness has more than a thousand of it", () =>
    Effect.gen(function*() {
      const batches = Array.from({ length: policy.mostBatches }, (_, n) => ({ ...sent, provider: `bank-${n}` }))
      assert.deepStrictEqual(yield* stepsOf({ state, batches }), ["batches"])
      const begun = ["fence", "batches", "verify", "record", "release"]
      assert.deepStrictEqual(yield* stepsOf({ state, batches: [...batches, sent] }), ["batches", ...begun])
    }))
})
