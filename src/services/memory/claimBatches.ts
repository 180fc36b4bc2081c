/**
 * The claim batches of a ledger that requires records of its claims, in memory. See `countBatch` of the SQL queue.
 */
import type { ClaimBatch } from "../../domain/ClaimBatch.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import type { Claim, ClaimTerms } from "../../domain/Submission.ts"
import type { MemoryLedger } from "./MemoryLedger.ts"

/** The key of a batch in `MemoryLedger.batches`. */
export const keyOf = ({ life, provider, worker }: Omit<ClaimBatch, "epoch" | "batch">) =>
  JSON.stringify([worker, life, provider])

/** Whether these terms may claim: see `here` of the SQL queue. */
export const mayClaim = ({ cluster, home }: MemoryLedger["Service"], { recorded_by }: ClaimTerms): boolean =>
  recorded_by === undefined ? !home.has("epoch") : home.get("life") === cluster.life

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
  { recorded_by }: ClaimTerms
): ReadonlyArray<Claim> => {
  if (recorded_by === undefined || claims.length === 0) return claims
  const batch = countBatch(memory, recorded_by, provider)
  return claims.map((claim) => ({ ...claim, batch }))
}
