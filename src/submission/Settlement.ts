/**
 * The outcome and the evidence that follow from the end of a submission.
 */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import { isOperationFailure, type OperationFailure, type OperationId, type Outcome } from "../domain/Operation.ts"
import {
  type AuthorizationRevoked,
  isProviderReference,
  type PayloadAltered,
  type PayloadUnreadable,
  type ProviderReference
} from "../domain/Submission.ts"
import { findContradiction } from "./contradiction.ts"
import { answered, type Evidence } from "./Evidence.ts"
import { describeDefect } from "./logFailure.ts"
import type { NotSent, SubmissionAnswer, Uncertain } from "./ProviderAdapter.ts"

/** An outcome with its evidence. */
export interface Settlement {
  readonly outcome: Outcome
  readonly evidence: Evidence
  readonly reference: ProviderReference | null
  /** False only when it is proven that nothing was sent. */
  readonly isSent: boolean
}

/**
 * Determines the settlement from the exit of the attempts. `isSending` tells whether an attempt was under way, so that
 * an interruption may have come after the first byte. Without evidence of another outcome the operation is
 * `indeterminate` (specification, "States and transitions", rule 3). An answer that names another operation than `id`
 * is no evidence.
 */
export const settlementOf = (
  id: OperationId,
  exit: Exit.Exit<SubmissionAnswer, NotSent | Uncertain | PayloadUnreadable | PayloadAltered | AuthorizationRevoked>,
  isSending: boolean
): Settlement => {
  if (Exit.isSuccess(exit)) return fromAnswer(id, exit.value)
  const error = Option.getOrNull(Cause.findErrorOption(exit.cause))
  if (error?._tag === "PayloadUnreadable") {
    return unsent(
      { code: "payload_unreadable", message: "The request could not be read, and was not sent." },
      error.message
    )
  }
  if (error?._tag === "PayloadAltered") {
    return unsent(
      { code: "payload_altered", message: "The stored request is not the one that was accepted, and was not sent." },
      error.message
    )
  }
  if (error?._tag === "AuthorizationRevoked") {
    return unsent(
      {
        code: "authorization_revoked",
        message: "The authorization ended before the operation could be sent; nothing was sent."
      },
      error.message
    )
  }
  if (error?._tag === "NotSent") return notSent(error)
  if (error?._tag === "Uncertain") return uncertain(error.reason)
  if (!isSending) return notSent({ reason: "the worker was stopped before it sent anything", isLocal: true })
  return uncertain(
    Cause.hasInterruptsOnly(exit.cause)
      ? "the worker was stopped while it was sending"
      : describeDefect(Cause.squash(exit.cause))
  )
}

/**
 * The code and message of the provider if they can be published, otherwise `provider_rejected` with a message of the
 * gateway.
 */
export const publicFailure = (given: { readonly code: string; readonly message: string }): OperationFailure => {
  const { code, message } = given
  const failure = { code, message }
  return isOperationFailure(failure)
    ? failure
    : { code: "provider_rejected", message: "The provider refused the operation." }
}

const fromAnswer = (id: OperationId, answer: SubmissionAnswer): Settlement => {
  const { names } = answer
  // A claimed operation has no reference yet. If another one is stored meanwhile, `SubmissionQueue.record` finds it.
  const contradiction = findContradiction(names, { id, reference: null })
  if (contradiction !== null) {
    const { expected, member, named } = contradiction
    return uncertain(`the answer names another operation: its ${member} is ${named}, not ${expected}`, answer.evidence)
  }
  const evidence = answered("submission", answer.evidence)
  const reference = isProviderReference(names.reference) ? names.reference : null
  switch (answer._tag) {
    case "Acknowledged":
      return { outcome: { state: "submitted" }, evidence, reference, isSent: true }
    case "Succeeded":
      return { outcome: { state: "succeeded" }, evidence, reference, isSent: true }
    case "Rejected":
      return { outcome: { state: "failed", failure: publicFailure(answer) }, evidence, reference, isSent: true }
    default:
      // An adapter without type checks may answer with another tag.
      answer satisfies never
      return uncertain("the adapter gave an answer of an unknown kind")
  }
}

const unsent = (failure: OperationFailure, reason: string): Settlement => ({
  outcome: { state: "failed", failure },
  evidence: { by: "submission", reason },
  reference: null,
  isSent: false
})

const notSent = ({ isLocal, isPermanent, reason }: Pick<NotSent, "reason" | "isLocal" | "isPermanent">): Settlement => {
  const message = isPermanent === true
    ? "The operation cannot be sent; nothing was sent."
    : isLocal === true
    ? "The operation could not be sent in time; nothing was sent."
    : "The provider could not be reached; nothing was sent."
  return unsent({ code: "provider_unreachable", message }, reason)
}

/** The outcome is unknown. The evidence keeps the provider's answer, if there was one, beside the reason. */
export const uncertain = (reason: string, answer?: Schema.Json): Settlement => ({
  outcome: { state: "indeterminate" },
  evidence: { ...answer === undefined ? { by: "submission" } : answered("submission", answer), reason },
  reference: null,
  isSent: true
})
