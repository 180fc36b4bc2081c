/** Proof that comes after another component has moved the operation, and contradicts what the ledger has. */
import type * as DateTime from "effect/DateTime"
import { isTerminal, type OperationState } from "../../domain/Operation.ts"
import type { ProviderReference, Recording } from "../../domain/Submission.ts"

/** What an answer of a provider proves of an operation. */
export interface Proof {
  readonly state: OperationState
  readonly reference: ProviderReference | null
  readonly evidence: Recording["evidence"]
}

/** How an operation stands, or ended. The provider acknowledged or named it before: `acknowledged`, `reference`. */
export interface KnownOutcome {
  readonly state: OperationState
  readonly acknowledged: boolean
  readonly reference: ProviderReference | null
}

/**
 * Whether the proof contradicts the outcome. A receipt contradicts `failed` only if the provider had not confirmed it before: what it
 * received may fail later. Another reference than that of a success, or than the stored one before the end, may be that of a second payment.
 */
export const contradicts = (known: KnownOutcome, { reference, state }: Omit<Proof, "evidence">): boolean => {
  if (state === "failed") return known.state === "succeeded"
  const isOther = reference !== null && reference !== known.reference
  if (known.state === "succeeded" || !isTerminal(known.state)) return isOther && known.reference !== null
  if (state === "succeeded") return true
  return isOther || reference === null && state === "submitted" && !known.acknowledged
}

/** Whether the proof is recorded as a reversal. A second payment reverses no success: `keepLateProof` only logs it. */
export const isReversal = (known: KnownOutcome, { state }: Proof): boolean =>
  isTerminal(known.state) && (known.state !== "succeeded" || state === "failed")

/** Proof that comes late, with the time of the claim behind it; null if no claim is. */
export interface LateProof extends Omit<Proof, "evidence"> {
  readonly claimed_at: DateTime.Utc | null
}

/** What a report of late proof found of its operation, and did. */
export interface Reported {
  /**
   * `claimed`: another claim has it, and nothing was done. `settled`: it is final or unknown, and nothing was done. `held`: it was `accepted`
   * again. `read`: a status read is due.
   */
  readonly as: "claimed" | "settled" | "held" | "read"
  /** Whether later status reads find what the proof says, or it says nothing. */
  readonly isKept: boolean
}

/**
 * The report of late proof of an operation that is not final, after it changed the row. Without a reference, a success or a refusal is
 * nowhere. So is whose order a reference names, if the row is of another claim (`isForeign`): both may have sent the operation.
 */
export const reportedOf = (
  { acknowledged, isForeign, reference, state }: KnownOutcome & { readonly isForeign: boolean },
  proof: LateProof
): Reported => ({
  as: state === "accepted" ? "held" : "read",
  isKept: proof.state === "indeterminate" || !isForeign
      && (proof.reference === null ? proof.state === "submitted" && acknowledged : proof.reference === reference)
})

/** Proof of an order that no status read may find: a later "not found" and a fence then prove nothing. */
export const namesNoOrder = ({ reference, state }: LateProof): boolean =>
  reference === null && (state === "submitted" || state === "succeeded")

/** The evidence of the record. Of a final state that is not `succeeded`, the trigger `operation_reversals_proof` asks for `proves`. */
export const contradictionEvidence = ({ evidence, reference, state }: Proof) => ({ proves: state, reference, evidence })
