/** Decides the consequence of a status read (specification, "States and transitions"). */
import * as DateTime from "effect/DateTime"
import type * as Schema from "effect/Schema"
import { gatewayFailure } from "../../domain/GatewayFailures.ts"
import type { Outcome } from "../../domain/Operation.ts"
import { isFenced, isProviderReference, type ProviderReference } from "../../domain/Submission.ts"
import {
  answered,
  type Contradiction,
  type Evidence,
  findContradiction,
  publicFailure
} from "../providers/AnswerRecord.ts"
import type { FenceAnswer, NotFound, ProviderAdapter, StatusAnswer } from "../providers/ProviderAdapter.ts"
import {
  isFinalNotFound,
  isNeverFinalNotFound,
  isSentAs,
  type ProviderPromises,
  questionOf,
  readKind,
  reversibleEvidence
} from "../providers/ProviderPromises.ts"
import type { TimedRead } from "./fences.ts"

/** What an adapter declares about its answers. */
export type AnswerRules = Pick<ProviderAdapter["Service"], "account" | "failures" | "keyIn" | "promises">

type Due = Pick<
  TimedRead,
  | "operation"
  | "state"
  | "reference"
  | "acknowledged"
  | "created_at"
  | "taken_at"
  | "fence_started_at"
  | "sent_as"
  | "askedAt"
>

export type ReadDecision =
  /**
   * The state stays. A reference that the answer gave is kept. With a question, reads alone may not settle the operation: it comes
   * under review, and a person asks the provider. Null: an earlier question is answered.
   */
  | { readonly _tag: "Postpone"; readonly reference: ProviderReference | null; readonly question?: string | null }
  /** The answer proves nothing. The operation is put under review. */
  | { readonly _tag: "Contradicted"; readonly contradiction: Contradiction }
  /** The succeeded operation was reversed. Its state stays. */
  | { readonly _tag: "Reversed"; readonly evidence: Evidence }
  | {
    readonly _tag: "Record"
    readonly outcome: Outcome
    readonly evidence: Evidence
    readonly reference: ProviderReference | null
  }

const postpone = { _tag: "Postpone", reference: null } as const

/**
 * Decides the consequence of a status read, or of a fence. Evidence moves the operation, a network failure makes a `submitted`
 * operation `indeterminate`, and in every other case the state stays. `answer` is null when the circuit let no read
 * through.
 *
 * An answer that names another operation id, or another reference than the stored one, proves nothing. An answer that
 * names neither counts: the adapter asked for exactly this operation (see `AnswerNames`). The answer of an indirect read counts only
 * with the provider's reference.
 */
export const decideAfterRead = (
  due: Due,
  answer: StatusAnswer | FenceAnswer | null,
  rules: AnswerRules = {}
): ReadDecision => {
  // A read that failed, or whose answer was not understood, names no operation.
  const contradiction = answer === null || answer._tag === "NotProven"
    ? null
    : findContradiction(answer.names, { id: due.operation.id, reference: due.reference })
  if (contradiction !== null) return { _tag: "Contradicted", contradiction }
  const { promises = {} } = rules
  if (
    answer?._tag === "Proven" && readKind(promises, due.reference) === "indirect"
    && !isProviderReference(answer.names.reference)
  ) return { ...postpone, question: questionOf(promises, due.operation) }
  return due.state === "succeeded" ? decideAfterSuccess(answer, rules) : decideByRule(due, answer, rules)
}

/** A success is final, so only the proof that it did not last is recorded. */
const decideAfterSuccess = (answer: StatusAnswer | FenceAnswer | null, { failures }: AnswerRules): ReadDecision =>
  answer?._tag === "Proven" && answer.state === "failed"
    ? {
      _tag: "Reversed",
      evidence: { ...answered("status_read", answer.evidence), failure: { ...publicFailure(failures, answer.code) } }
    }
    : postpone

const decideByRule = (
  due: Due,
  answer: StatusAnswer | FenceAnswer | null,
  rules: AnswerRules
): ReadDecision => {
  const { failures, promises = {} } = rules
  switch (answer?._tag) {
    case undefined:
      return postpone
    case "Proven": {
      const reference = isProviderReference(answer.names.reference) ? answer.names.reference : null
      const evidence = {
        ...answered("status_read", answer.evidence),
        ...answer.state === "succeeded" ? reversibleEvidence(promises, due.operation.type) : {}
      }
      if (answer.state === "submitted" && due.state === "submitted") {
        return { _tag: "Postpone", reference, question: null }
      }
      const outcome: Outcome = answer.state === "failed"
        ? { state: "failed", failure: publicFailure(failures, answer.code) }
        : { state: answer.state }
      return { _tag: "Record", outcome, evidence, reference }
    }
    case "NotFound": {
      const mayProve = isSentAs(due, rules)
      // The provider may contradict its earlier acknowledgement.
      if (due.acknowledged || !mayProve || !provesNeverReceived(due, answer, promises)) {
        return answer.evidence !== null && isNeverFinalNotFound(promises, { ...due, mayProve })
          ? { ...postpone, question: questionOf(promises, due.operation) }
          : postpone
      }
      // A held operation was sent by a claim that the ledger lost, so nothing says how.
      return due.state === "indeterminate"
        ? neverReceived(due, {
          ...answered("status_read", answer.evidence),
          asked_at: DateTime.formatIso(due.taken_at)
        })
        : postpone
    }
    // The next status read shows the state of this order.
    case "Known":
      return isProviderReference(answer.names.reference)
        ? { _tag: "Postpone", reference: answer.names.reference, question: null }
        : postpone
    case "Occupied":
      return isFenced(due)
        ? neverReceived(due, {
          ...answered("fence", answer.evidence),
          fence_started_at: DateTime.formatIso(due.fence_started_at!)
        })
        : postpone
    case "NotProven":
      return due.state === "submitted" && answer.reason === "unreachable"
        ? {
          _tag: "Record",
          outcome: { state: "indeterminate" },
          evidence: { by: "status_read", reason: answer.detail },
          reference: null
        }
        : answer.question === undefined && answer.reason !== "ordered"
        ? postpone
        : { ...postpone, question: answer.question ?? questionOf(promises, due.operation) }
  }
}

/** Without a reference: that of an answer to a fence is the order of the fence. */
const neverReceived = ({ operation: { send_before } }: Due, evidence: Evidence): ReadDecision => ({
  _tag: "Record",
  outcome: { state: "failed", failure: gatewayFailure("provider_never_received") },
  evidence: { ...evidence, send_before: DateTime.formatIso(send_before!) },
  reference: null
})

/** `answer.evidence` is null if a proxy may have answered. */
const provesNeverReceived = (
  due: Due,
  answer: NotFound,
  promises: ProviderPromises
): answer is NotFound & { readonly evidence: Schema.Json } =>
  answer.evidence !== null && isFinalNotFound(promises, due, answer.refusedFrom ?? null)
