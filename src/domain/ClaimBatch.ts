/**
 * The operations that one statement claimed, as one number.
 */
export interface ClaimBatch {
  /** UUID: what the ledger and the records elsewhere must both have for the operations to be sent. It belongs to one life. */
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
