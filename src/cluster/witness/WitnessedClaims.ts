/**
 * Lets a worker send only what its witness has: each claim batch is recorded there before one of its operations is sent.
 */
import * as Effect from "effect/Effect"
import type { ClaimBatch } from "../../domain/ClaimBatch.ts"
import type { Claim } from "../../domain/Submission.ts"
import { Verifications } from "../../services/Verifications.ts"
import { logFailure } from "../../submission/logFailure.ts"
import { withinStore } from "../../submission/withinStore.ts"
import { Witness, WitnessPolicy, type WitnessStore, WitnessUnavailable } from "./Witness.ts"

/** The gate of one worker process. */
export interface WitnessGate {
  /** For the terms of a claim. */
  readonly witnessedBy: () => { readonly witnessed_by?: string }
  /** Whether the worker may claim. After a failure it claims nothing until ledger and witness agree again. */
  readonly admits: Effect.Effect<boolean>
  /** Records the batches of these claims. Yields the batches that may not be sent, each with the reason. */
  readonly record: (claims: ReadonlyArray<Claim>) => Effect.Effect<ReadonlyMap<ClaimBatch | undefined, string>>
}

const nothing: ReadonlyMap<ClaimBatch | undefined, string> = new Map()

const openGate: WitnessGate = {
  witnessedBy: () => ({}),
  admits: Effect.succeed(true),
  record: () => Effect.succeed(nothing)
}

/** Bounds a step of the witness in time. After `WitnessUnavailable` it is unknown whether a write took effect. */
export const withinWitness = <A>(step: Effect.Effect<A, WitnessUnavailable>): Effect.Effect<A, WitnessUnavailable> =>
  Effect.flatMap(WitnessPolicy, ({ timeout }) =>
    Effect.timeoutOrElse(Effect.interruptible(step), {
      duration: timeout,
      orElse: () => Effect.fail(new WitnessUnavailable({ reason: "no answer in time" }))
    }))

/** The last batch of each epoch, life and provider. It proves the earlier ones, because their commits came before. */
const lastBatches = (batches: ReadonlyArray<ClaimBatch>): ReadonlyArray<ClaimBatch> => {
  const last = new Map<string, ClaimBatch>()
  for (const batch of batches) {
    const key = JSON.stringify([batch.epoch, batch.worker, batch.life, batch.provider])
    if ((last.get(key)?.batch ?? -Infinity) < batch.batch) last.set(key, batch)
  }
  return [...last.values()]
}

const isOneOf = ({ epoch, life, provider, worker }: ClaimBatch, last: ClaimBatch) =>
  epoch === last.epoch && worker === last.worker && life === last.life && provider === last.provider

const makeGate = (store: WitnessStore, { readWitnessState }: Verifications["Service"]): WitnessGate => {
  let worker = crypto.randomUUID()
  let isSuspect = false

  /** The next batches have another key: a write without an answer may take effect at any time. */
  const suspect = (reason: string) =>
    Effect.suspend(() => {
      worker = crypto.randomUUID()
      if (isSuspect) return Effect.void
      isSuspect = true
      return Effect.annotateLogs(
        Effect.logWarning(
          "The witness does not let this worker send; it claims nothing until ledger and witness agree, and returns its claims"
        ),
        { reason }
      )
    })

  const look = Effect.gen(function*() {
    const { epoch, isCurrent } = yield* withinStore(readWitnessState)
    if (!isCurrent || (yield* withinWitness(store.epoch)) !== epoch) return false
    isSuspect = false
    yield* Effect.logInfo("Ledger and witness agree: the worker claims again")
    return true
  }).pipe(Effect.catchCause(() => Effect.succeed(false)))

  const recordOne = Effect.fnUntraced(function*(batch: ClaimBatch) {
    const isRecorded = yield* Effect.result(withinWitness(store.record(batch)))
    if (isRecorded._tag === "Success" && isRecorded.success) return null
    const reason = isRecorded._tag === "Failure"
      ? `the witness did not record the claim: ${isRecorded.failure.reason}`
      : "the witness refused the claim: it has another epoch"
    yield* suspect(reason)
    return reason
  }, (reason) =>
    Effect.catchCause(reason, (cause) =>
      Effect.andThen(
        logFailure("Could not record a claim in the witness", cause),
        Effect.as(suspect("the witness failed"), "the witness failed")
      )))

  return {
    witnessedBy: () => ({ witnessed_by: worker }),
    admits: Effect.suspend(() => isSuspect ? look : Effect.succeed(true)),
    record: Effect.fnUntraced(function*(claims) {
      const batches = new Set(claims.map(({ batch }) => batch))
      const refused = new Map<ClaimBatch | undefined, string>()
      if (batches.delete(undefined)) refused.set(undefined, "the claim has no batch for the witness")
      for (const last of lastBatches([...batches] as ReadonlyArray<ClaimBatch>)) {
        const reason = yield* recordOne(last)
        if (reason === null) continue
        for (const batch of batches) if (isOneOf(batch!, last)) refused.set(batch, reason)
      }
      return refused
    })
  }
}

/** The gate of this process. Without a `Witness` it is open. */
export const makeWitnessGate: Effect.Effect<WitnessGate, never, Verifications> = Effect.gen(function*() {
  const verifications = yield* Verifications
  const store = yield* Witness
  return store === null ? openGate : makeGate(store, verifications)
})
