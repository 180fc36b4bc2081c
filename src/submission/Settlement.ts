/**
 * What the end of a submission says of its operation.
 */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { isOperationFailure, type OperationFailure, type Outcome } from "../domain/Operation.ts"
import {
  isProviderReference,
  type PayloadAltered,
  type PayloadUnreadable,
  type ProviderReference
} from "../domain/Submission.ts"
import { answered, type Evidence } from "./Evidence.ts"
import { describe } from "./logFailure.ts"
import type { NotSent, SubmissionAnswer, Uncertain } from "./Provider.ts"

/** An outcome with what proves it. */
export interface Settlement {
  readonly outcome: Outcome
  readonly evidence: Evidence
  readonly reference: ProviderReference | null
  /** Whether it was sent, as far as anybody can know: false only where it is proven that it was not. */
  readonly isSent: boolean
}

/**
 * Judges how the attempts at a submission ended. `isSending` tells whether one was under way, and so whether an
 * interruption may have come after the first byte. Whatever is not proof of something else is `indeterminate`
 * (specification, "States and transitions" 3).
 */
export const judge = (
  exit: Exit.Exit<SubmissionAnswer, NotSent | Uncertain | PayloadUnreadable | PayloadAltered>,
  isSending: boolean
): Settlement => {
  if (Exit.isSuccess(exit)) return fromAnswer(exit.value)
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
  if (error?._tag === "NotSent") return notSent(error)
  if (error?._tag === "Uncertain") return uncertain(error.reason)
  if (!isSending) return notSent({ reason: "the worker was stopped before it sent anything", isLocal: true })
  return uncertain(
    Cause.hasInterruptsOnly(exit.cause)
      ? "the worker was stopped while it was sending"
      : describe(Cause.squash(exit.cause))
  )
}

/**
 * What the provider gave as code and message if it can be published, else words of our own.
 */
export const publicFailure = (given: { readonly code: string; readonly message: string }): OperationFailure => {
  const { code, message } = given
  const failure = { code, message }
  return isOperationFailure(failure)
    ? failure
    : { code: "provider_rejected", message: "The provider refused the operation." }
}

const fromAnswer = (answer: SubmissionAnswer): Settlement => {
  switch (answer._tag) {
    case "Acknowledged": {
      const reference = isProviderReference(answer.reference) ? answer.reference : null
      const evidence = answered("submission", answer.evidence)
      return { outcome: { state: "submitted" }, evidence, reference, isSent: true }
    }
    case "Succeeded":
      return settled({ state: "succeeded" }, answered("submission", answer.evidence))
    case "Rejected":
      return settled({ state: "failed", failure: publicFailure(answer) }, answered("submission", answer.evidence))
    default:
      // Of an adapter that nobody checked.
      answer satisfies never
      return uncertain("the adapter gave an answer that is none")
  }
}

const settled = (outcome: Outcome, evidence: Evidence): Settlement => ({
  outcome,
  evidence: { by: "submission", ...evidence },
  reference: null,
  isSent: true
})

const unsent = (failure: OperationFailure, reason: string): Settlement => ({
  ...settled({ state: "failed", failure }, { reason }),
  isSent: false
})

const notSent = ({ isLocal, reason }: Pick<NotSent, "reason" | "isLocal">): Settlement => {
  const message = isLocal === true
    ? "The operation could not be sent in time; nothing was sent."
    : "The provider could not be reached; nothing was sent."
  return unsent({ code: "provider_unreachable", message }, reason)
}

/** Nobody can know what became of it. */
export const uncertain = (reason: string): Settlement => ({
  outcome: { state: "indeterminate" },
  evidence: { by: "submission", reason },
  reference: null,
  isSent: true
})
