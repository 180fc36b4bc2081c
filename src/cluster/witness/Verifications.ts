/**
 * The comparison of the ledger with its witness: what it needs, what it proves, and what the ledger does then.
 */
import type * as Effect from "effect/Effect"
import type { ClaimBatch } from "../../domain/ClaimBatch.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"

/** A batch that the witness has and the ledger lacks. */
export interface MissingBatch extends ClaimBatch {
  /** The last one that the ledger has, or 0. */
  readonly present: number
}

/** What the ledger has of its witness. */
export interface WitnessState {
  /** Null: the ledger has no witness. */
  readonly epoch: string | null
  /** The present life. */
  readonly life: string
  /** Whether the epoch was set in the present life. Otherwise no worker claims. */
  readonly isCurrent: boolean
  /** Milliseconds since the epoch was set. */
  readonly age: number
  /** A verification proved that no sent claim was lost, and its checkpoint may not be in the witness yet. */
  readonly isReleaseDue: boolean
}

/**
 * - `begun`: the ledger has its witness from now on. What only the timeline held gets a hold, so no later proof releases it.
 * - `proven`: no sent claim was lost. Once the witness has the checkpoint, all operations that only the timeline held are released.
 * - `unsettled`: no witnessed claim was lost, but one from before the witness may be. Otherwise as `begun`.
 * - `missing`: sent claims were lost. All accepted operations are held.
 * - `unprovable`: the ledger or the witness does not know of the other. All accepted operations are held.
 */
export type VerificationResult = "begun" | "proven" | "unsettled" | "missing" | "unprovable"

/** What a verification found and did. */
export interface Verification {
  readonly result: VerificationResult
  readonly held: number
  readonly missing: ReadonlyArray<MissingBatch>
}

/** What a verification compares with the ledger. */
export interface VerificationRequest {
  /** What the verifier read of the ledger before it fenced the witness. */
  readonly expected: Pick<WitnessState, "epoch" | "life">
  /** The epoch with which it fenced the witness, and the next one of the ledger. */
  readonly epoch: string
  /** All batches in the witness after the fence. */
  readonly batches: ReadonlyArray<ClaimBatch>
  /** Whether the witness had an epoch. */
  readonly hadEpoch: boolean
}

/** The batch of a verification. Its presence proves all that the verification compared. */
export const checkpointOf = (epoch: string, life: string): ClaimBatch => ({
  epoch,
  worker: epoch,
  life,
  provider: "",
  batch: 1
})

/** The statements of the verifier, in PostgreSQL and in memory. */
export interface Verifications {
  /** What the ledger has of its witness. */
  readonly readWitnessState: Effect.Effect<WitnessState, StoreUnavailable>
  /**
   * Compares the ledger with the batches in its witness, and holds what follows from that: see `VerificationResult`. The caller has
   * fenced the witness. Null: epoch or life are no longer the expected ones, and nothing was done.
   *
   * After `StoreUnavailable` it is unknown whether that happened. Begin anew, with another epoch.
   */
  readonly verify: (request: VerificationRequest) => Effect.Effect<Verification | null, StoreUnavailable>
  /**
   * Releases the operations that only the timeline holds, after a `proven` verification with this epoch, in the same life. Returns how
   * many; null if that is not due any more. Call it after the witness has the checkpoint of the epoch. Then no other history can
   * send them: its verification lacks the checkpoint.
   */
  readonly releaseProven: (epoch: string, life: string) => Effect.Effect<number | null, StoreUnavailable>
  /** Removes the rows of batches from before this epoch, if it is the present one. Call it after the witness has forgotten them. */
  readonly forgetBatches: (epoch: string) => Effect.Effect<void, StoreUnavailable>
}

/** What the history says of the claims of a ledger that lacks a batch which its witness has. */
export const missingBatchEvidence = {
  by: "witness",
  reason: "the ledger lacks sent claims, and a worker may have sent the operation in the history that was lost"
} as const

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
