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
 * received may fail later.
 */
export const contradicts = (final: FinalOutcome, { reference, state }: Omit<Proof, "evidence">): boolean => {
  if (!isTerminal(final.state)) return false
  if (state === "failed") return final.state === "succeeded"
  if (final.state === "succeeded") return false
  if (state === "succeeded") return true
  return reference === null ? state === "submitted" && !final.acknowledged : reference !== final.reference
}

/** The evidence of the record. Of a final state that is not `succeeded`, the trigger `operation_reversals_proof` asks for `proves`. */
export const contradictionEvidence = ({ evidence, reference, state }: Proof) => ({ proves: state, reference, evidence })
