/**
 * The comparison of the ledger with its witness, in memory. See the SQL queue for the reasons.
 */
import * as Effect from "effect/Effect"
import { resultOf } from "../../cluster/witness/verificationResult.ts"
import {
  checkpointOf,
  type ClaimBatch,
  type Verification,
  type VerificationRequest,
  type WitnessState
} from "../../domain/ClaimBatch.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import type { Claim, ClaimTerms } from "../../domain/Submission.ts"
import { missingBatchEvidence } from "../rules/rescueEvidence.ts"
import type { makeHolds } from "./MemoryHolds.ts"
import type { MemoryLedger, MemoryRecord } from "./MemoryLedger.ts"
import type { MemoryQueueTable } from "./MemoryQueueTable.ts"
import { rescueRecord } from "./MemoryRescues.ts"

const keyOf = ({ life, provider, worker }: Omit<ClaimBatch, "epoch" | "batch">) =>
  JSON.stringify([worker, life, provider])

/** Whether these terms may claim: see `here` of the SQL queue. */
export const mayClaim = ({ cluster, home }: MemoryLedger["Service"], { witnessed_by }: ClaimTerms): boolean =>
  witnessed_by === undefined ? !home.has("epoch") : home.get("life") === cluster.life

/** Counts the batch of the worker. */
const countBatch = (
  { batches, cluster: { life }, home }: MemoryLedger["Service"],
  worker: string,
  provider: ProviderName
): ClaimBatch => {
  const key = keyOf({ worker, life, provider })
  const batch = (batches.get(key) ?? 0) + 1
  batches.set(key, batch)
  return { epoch: home.get("epoch")!, worker, life, provider, batch }
}

/** Makes a batch of claims that one statement made. */
export const withBatch = (
  memory: MemoryLedger["Service"],
  claims: ReadonlyArray<Claim>,
  provider: ProviderName,
  { witnessed_by }: ClaimTerms
): ReadonlyArray<Claim> => {
  if (witnessed_by === undefined || claims.length === 0) return claims
  const batch = countBatch(memory, witnessed_by, provider)
  return claims.map((claim) => ({ ...claim, batch }))
}

export const makeVerifications = (
  table: MemoryQueueTable,
  { placed, released }: Pick<ReturnType<typeof makeHolds>, "placed" | "released">
) => {
  const { memory: { batches, cluster, home }, records, update } = table

  const readWitnessState = Effect.sync((): WitnessState => ({
    epoch: home.get("epoch") ?? null,
    life: cluster.life,
    isCurrent: home.get("life") === cluster.life,
    age: Infinity,
    isReleaseDue: home.has("epoch") && home.get("due") === home.get("epoch")
  }))

  const isOnlyHeldByTimeline = ({ hold_placed, operation, timeline }: MemoryRecord) =>
    operation.state === "accepted" && !hold_placed && timeline < cluster.timeline

  const keepHeld = () =>
    records().filter(isOnlyHeldByTimeline).forEach((record) => update({ ...record, hold_placed: true }))

  const holdEverything = (): number => {
    cluster.holds++
    for (const record of records()) {
      if (record.operation.state === "submitting") rescueRecord(table, record, missingBatchEvidence, true)
    }
    return records().filter(({ operation }) => operation.state === "accepted").map(placed).length
  }

  const adopt = (batch: ClaimBatch) => {
    const key = keyOf(batch)
    batches.set(key, Math.max(batches.get(key) ?? 0, batch.batch))
  }

  const verify = ({ batches: witnessed, epoch, expected, hadEpoch }: VerificationRequest) =>
    Effect.sync((): Verification | null => {
      if ((home.get("epoch") ?? null) !== expected.epoch || cluster.life !== expected.life) return null
      home.set("epoch", epoch)
      home.set("life", expected.life)
      const missing = witnessed.flatMap((batch) => {
        const present = batches.get(keyOf(batch)) ?? 0
        return present < batch.batch ? [{ ...batch, present }] : []
      })
      const result = resultOf({
        hadEpoch,
        isWitnessed: expected.epoch !== null,
        // In memory every claim ends in one instant.
        isSettled: true,
        batches: witnessed.length,
        missing: missing.length
      })
      if (result === "begun" || result === "unsettled") keepHeld()
      const mustHold = result === "missing" || result === "unprovable"
      if (result === "proven") home.set("due", epoch)
      const held = mustHold ? holdEverything() : 0
      if (mustHold) witnessed.forEach(adopt)
      adopt(checkpointOf(epoch, expected.life))
      return { result, held, missing }
    })

  const releaseProven = (epoch: string, life: string) =>
    Effect.sync(() => {
      const isDue = home.get("epoch") === epoch && home.get("due") === epoch
      if (!isDue || home.get("life") !== life || cluster.life !== life) return null
      home.set("due", "")
      return records().filter((record) => isOnlyHeldByTimeline(record) && !record.acknowledged).map(released).length
    })

  return { readWitnessState, verify, releaseProven, forgetBatches: () => Effect.void }
}
