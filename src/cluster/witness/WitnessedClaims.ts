/** Lets a worker send only what its witness has: each claim batch is recorded there before one of its operations is sent. */
import * as Effect from "effect/Effect"
import type { ClaimBatch } from "../../domain/Submission.ts"
import type { ClaimRecorder } from "../../submission/attempts/ClaimRecorder.ts"
import { withinStore } from "../../submission/storeStatements.ts"
import { logFailure } from "../../submission/submissionLog.ts"
import type { Verifications } from "./Verifications.ts"
import { withinWitness, type WitnessStore } from "./Witness.ts"
import { verifyWitness } from "./WitnessVerifier.ts"

const keyOf = ({ epoch, life, provider, worker }: ClaimBatch) => JSON.stringify([epoch, worker, life, provider])

/** The recorder of a worker process with this witness. After a failure it admits no claim until ledger and witness agree again. */
export const makeWitnessedClaims = (store: WitnessStore, verifications: Verifications): ClaimRecorder => {
  const { readWitnessState } = verifications
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
    begin: verifyWitness(store, verifications),
    terms: () => ({ recorded_by: worker }),
    admits: Effect.suspend(() => isSuspect ? look : Effect.succeed(true)),
    record: Effect.fnUntraced(function*(claims) {
      const refused = new Map<ClaimBatch | undefined, string>()
      if (claims.some(({ batch }) => batch === undefined)) {
        refused.set(undefined, "the claim has no batch for the witness")
      }
      const batches = claims.flatMap(({ batch }) => batch ?? [])
      for (const group of Map.groupBy(batches, keyOf).values()) {
        // The last one proves the earlier ones, because their commits came before.
        const reason = yield* recordOne(group.reduce((last, batch) => batch.batch > last.batch ? batch : last))
        if (reason === null) continue
        for (const batch of group) refused.set(batch, reason)
      }
      return refused
    })
  }
}
