/** Proof that comes after an operation has ended, and contradicts its final state. */
import { isTerminal, type OperationState } from "../../domain/Operation.ts"
import type { ProviderReference, Recording } from "../../domain/Submission.ts"

/** What an answer of a provider proves of an operation. */
export interface Proof {
  readonly state: OperationState
  readonly reference: ProviderReference | null
  readonly evidence: Recording["evidence"]
}

/** How an operation ended. The provider acknowledged or named it before: `acknowledged`, `reference`. */
export interface FinalOutcome {
  readonly state: OperationState
  readonly acknowledged: boolean
  readonly reference: ProviderReference | null
}

/**
 * Whether the proof contradicts the outcome. A receipt contradicts `failed` only if the provider had not confirmed it before: what it
 * received may fail later. Another reference than that of a success may be that of a second payment.
 */
export const contradicts = (final: FinalOutcome, { reference, state }: Omit<Proof, "evidence">): boolean => {
  if (!isTerminal(final.state)) return false
  if (state === "failed") return final.state === "succeeded"
  const isOther = reference !== null && reference !== final.reference
  if (final.state === "succeeded") return isOther && final.reference !== null
  if (state === "succeeded") return true
  return isOther || reference === null && state === "submitted" && !final.acknowledged
}

/** Whether the proof is recorded as a reversal. A second payment reverses no success: `keepLateProof` only logs it. */
export const isReversal = (final: FinalOutcome, { state }: Proof): boolean =>
  final.state !== "succeeded" || state === "failed"

/** The evidence of the record. Of a final state that is not `succeeded`, the trigger `operation_reversals_proof` asks for `proves`. */
export const contradictionEvidence = ({ evidence, reference, state }: Proof) => ({ proves: state, reference, evidence })
