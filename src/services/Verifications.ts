/**
 * The comparison of the ledger with its witness.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Verification, VerificationRequest, WitnessState } from "../domain/ClaimBatch.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

export class Verifications extends Context.Service<Verifications, {
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
}>()("financial-agents-gateway/services/Verifications") {}
