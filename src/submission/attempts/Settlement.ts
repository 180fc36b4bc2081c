/** The outcome and the evidence that follow from the end of a submission, or the return of its claim. */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import { gatewayFailure, type GatewayFailureCode } from "../../domain/GatewayFailures.ts"
import type { OperationFailure, Outcome } from "../../domain/Operation.ts"
import {
  type AuthorizationRevoked,
  isProviderReference,
  type PayloadAltered,
  type PayloadUnreadable,
  type ProviderOperation,
  type ProviderReference
} from "../../domain/Submission.ts"
import {
  answered,
  describeContradiction,
  type Evidence,
  findContradiction,
  publicFailure
} from "../providers/AnswerRecord.ts"
import type { NotSent, ProviderAdapter, SubmissionAnswer, Uncertain } from "../providers/ProviderAdapter.ts"
import { reversibleEvidence } from "../providers/ProviderPromises.ts"
import { describeDefect } from "../submissionLog.ts"

export interface Settlement {
  readonly _tag: "Settlement"
  readonly outcome: Outcome
  readonly evidence: Evidence
  readonly reference: ProviderReference | null
  /** False only when it is proven that the provider did nothing for the operation. */
  readonly isSent: boolean
}

/** The operation does not end. Its claim is returned, because it is proven that the provider did nothing for it. */
export interface ClaimReturn {
  readonly _tag: "ClaimReturn"
  /** For the ledger and the log. */
  readonly reason: string
  /** The cause may be in this operation alone. */
  readonly isOfOperation: boolean
}

/** What an adapter declares about its answers. */
type AnswerRules = Pick<ProviderAdapter["Service"], "failures" | "promises">

export type AttemptError = NotSent | Uncertain | PayloadUnreadable | PayloadAltered | AuthorizationRevoked

/**
 * Determines the end of a submission from the exit of the attempts. `isSending` tells whether an attempt was under way, so
 * that an interruption may have come after the first byte. Without evidence of another outcome the operation is
 * `indeterminate` (specification, "States and transitions", rule 3). An answer that names another operation
 * is no evidence. A failure on this side, of which it is proven that nothing was sent, returns the claim.
 */
export const settlementOf = (
  operation: Pick<ProviderOperation, "id" | "type">,
  exit: Exit.Exit<SubmissionAnswer, AttemptError>,
  isSending: boolean,
  rules: AnswerRules = {}
): Settlement | ClaimReturn => {
  if (Exit.isSuccess(exit)) return fromAnswer(operation, exit.value, rules)
  const error = Option.getOrNull(Cause.findErrorOption(exit.cause))
  if (error !== null) return fromError(error, rules)
  const isStopped = Cause.hasInterruptsOnly(exit.cause)
  const defect = () => describeDefect(Cause.squash(exit.cause))
  return isSending
    ? uncertain(isStopped ? "the worker was stopped while it was sending" : defect())
    : returned(isStopped ? "the worker was stopped before it sent anything" : defect())
}

const fromError = (error: AttemptError, rules: AnswerRules): Settlement | ClaimReturn => {
  switch (error._tag) {
    case "Uncertain":
      return uncertain(error.reason)
    case "NotSent":
      return fromNotSent(error, rules)
    case "PayloadUnreadable":
      return failed("payload_unreadable", error.message)
    case "PayloadAltered":
      return failed("payload_altered", error.message)
    case "AuthorizationRevoked":
      return failed("authorization_revoked", error.message)
  }
}

const fromNotSent = (
  { isForbidden, isLocal, isOfOperation, isPermanent, isRefused, reason }: NotSent,
  { failures }: AnswerRules
): Settlement | ClaimReturn => {
  if (isPermanent === true) {
    return isForbidden === true
      ? failed(publicFailure(failures, "not_permitted"), reason)
      : failed("request_unsendable", reason)
  }
  if (isLocal === true) return returned(reason, isOfOperation)
  return isRefused === true
    ? failed("provider_unavailable", reason)
    : failed("provider_unreachable", reason)
}

const fromAnswer = (
  { id, type }: Pick<ProviderOperation, "id" | "type">,
  answer: SubmissionAnswer,
  { failures, promises = {} }: AnswerRules
): Settlement => {
  const { names } = answer
  // A claimed operation has no reference yet. If another one is stored meanwhile, `Outcomes.record` finds it.
  const contradiction = findContradiction(names, { id, reference: null })
  if (contradiction !== null) {
    return uncertain(describeContradiction(contradiction), answer.evidence)
  }
  const evidence = answered("submission", answer.evidence)
  const reference = isProviderReference(names.reference) ? names.reference : null
  switch (answer._tag) {
    case "Acknowledged":
      return { _tag: "Settlement", outcome: { state: "submitted" }, evidence, reference, isSent: true }
    case "Succeeded":
      return {
        _tag: "Settlement",
        outcome: { state: "succeeded" },
        evidence: { ...evidence, ...reversibleEvidence(promises, type) },
        reference,
        isSent: true
      }
    case "Rejected":
      return {
        _tag: "Settlement",
        outcome: { state: "failed", failure: publicFailure(failures, answer.code) },
        evidence,
        reference,
        isSent: true
      }
    default:
      // An adapter without type checks may answer with another tag.
      answer satisfies never
      return uncertain("the adapter gave an answer of an unknown kind")
  }
}

/** The operation fails, and the provider did nothing for it. */
const failed = (failure: GatewayFailureCode | OperationFailure, reason: string): Settlement => ({
  _tag: "Settlement",
  outcome: { state: "failed", failure: typeof failure === "string" ? gatewayFailure(failure) : failure },
  evidence: { by: "submission", reason },
  reference: null,
  isSent: false
})

const returned = (reason: string, isOfOperation = false): ClaimReturn => ({
  _tag: "ClaimReturn",
  reason,
  isOfOperation
})

/** The outcome is unknown. The evidence keeps the provider's answer, if there was one, beside the reason. */
export const uncertain = (reason: string, answer?: Schema.Json): Settlement => ({
  _tag: "Settlement",
  outcome: { state: "indeterminate" },
  evidence: { ...answer === undefined ? { by: "submission" } : answered("submission", answer), reason },
  reference: null,
  isSent: true
})
