/**
 * A witness in memory, for tests. It forgets with its process, and so proves nothing in production.
 */
import * as Effect from "effect/Effect"
import type { ClaimBatch } from "../../domain/ClaimBatch.ts"
import type { WitnessStore } from "./Witness.ts"

const keyOf = ({ epoch, life, provider, worker }: ClaimBatch) => JSON.stringify([epoch, worker, life, provider])

export const makeMemoryWitness = (): WitnessStore => {
  let present: string | null = null
  const batches = new Map<string, ClaimBatch>()
  return {
    epoch: Effect.sync(() => present),
    record: (batch) =>
      Effect.sync(() => {
        const known = batches.get(keyOf(batch))
        if (batch.epoch !== present || (known !== undefined && known.batch >= batch.batch)) return false
        batches.set(keyOf(batch), batch)
        return true
      }),
    fence: (from, to) =>
      Effect.sync(() => {
        if (present !== from) return false
        present = to
        return true
      }),
    batches: (epoch) => Effect.sync(() => epoch === present ? [...batches.values()] : null),
    compact: (checkpoint) =>
      Effect.sync(() => {
        if (checkpoint.epoch !== present) return false
        for (const [key, { epoch }] of batches) if (epoch !== checkpoint.epoch) batches.delete(key)
        batches.set(keyOf(checkpoint), checkpoint)
        return true
      })
  }
}
