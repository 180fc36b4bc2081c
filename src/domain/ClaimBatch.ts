/**
 * The operations that one statement claimed, as one number. An independent store, the witness, has the last batch that each worker
 * may have sent.
 */
export interface ClaimBatch {
  /** UUID: what the ledger and the witness must both have for the operations to be sent. It belongs to one life. */
  readonly epoch: string
  /** UUID of the worker process. */
  readonly worker: string
  /** One life of one server on one timeline. Within it, a commit proves every earlier one. */
  readonly life: string
  /** Empty for the batch of a verification. */
  readonly provider: string
  /** From 1, in the order of the commits of this worker, life and provider. */
  readonly batch: number
}

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
