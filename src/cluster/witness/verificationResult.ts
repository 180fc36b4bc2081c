import type { VerificationResult } from "../../domain/ClaimBatch.ts"

interface Comparison {
  /** Whether the witness had an epoch. */
  readonly hadEpoch: boolean
  /** Whether the ledger had one. */
  readonly isWitnessed: boolean
  readonly isSettled: boolean
  /** Batches in the witness. */
  readonly batches: number
  /** Those that the ledger lacks. */
  readonly missing: number
}

/** What the comparison of a ledger with its witness proves. */
export const resultOf = (
  { batches, hadEpoch, isSettled, isWitnessed, missing }: Comparison
): VerificationResult => {
  // A verifier that stopped after its fence leaves an epoch without batches.
  if (!isWitnessed && batches === 0) return "begun"
  if (missing > 0) return "missing"
  // A history from before the witness, or a witness that forgot.
  if (!isWitnessed || !hadEpoch) return "unprovable"
  return isSettled ? "proven" : "unsettled"
}
