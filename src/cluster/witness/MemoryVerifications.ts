/**
 * The comparison of the ledger with its witness, in memory. See `SqlVerifications` for the reasons.
 */
import * as Effect from "effect/Effect"
import type { ClaimBatch } from "../../domain/ClaimBatch.ts"
import { keyOf } from "../../services/memory/claimBatches.ts"
import { makeHolds } from "../../services/memory/MemoryHolds.ts"
import type { MemoryRecord } from "../../services/memory/MemoryLedger.ts"
import { makeQueueTable } from "../../services/memory/MemoryQueueTable.ts"
import { rescueRecord } from "../../services/memory/MemoryRescues.ts"
import {
  checkpointOf,
  missingBatchEvidence,
  resultOf,
  type Verification,
  type VerificationRequest,
  type Verifications,
  type WitnessState
} from "./Verifications.ts"

export const makeMemoryVerifications = Effect.gen(function*() {
  const table = yield* makeQueueTable
  const { placed, released } = makeHolds(table)
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

  return { readWitnessState, verify, releaseProven, forgetBatches: () => Effect.void } satisfies Verifications
})
