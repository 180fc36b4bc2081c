/**
 * Decides the consequence of a status read (specification, "States and transitions").
 */
import * as DateTime from "effect/DateTime"
import { type DeclaredFailures, gatewayFailure } from "../../domain/GatewayFailures.ts"
import type { Outcome } from "../../domain/Operation.ts"
import { type DueRead, isProviderReference, type ProviderReference } from "../../domain/Submission.ts"
import {
  answered,
  type Contradiction,
  type Evidence,
  findContradiction,
  publicFailure
} from "../providers/AnswerRecord.ts"
import type { AnswerNames, StatusAnswer } from "../providers/ProviderAdapter.ts"

export type ReadDecision =
  /** The state stays. A reference that the answer gave is kept. */
  | { readonly _tag: "Postpone"; readonly reference: ProviderReference | null }
  /** The answer proves nothing. The operation is put under review. */
  | { readonly _tag: "Contradicted"; readonly contradiction: Contradiction }
  /** The held operation was never received, and may be claimed again. */
  | { readonly _tag: "Release" }
  | {
    readonly _tag: "Record"
    readonly outcome: Outcome
    readonly evidence: Evidence
    readonly reference: ProviderReference | null
  }

const postpone: ReadDecision = { _tag: "Postpone", reference: null }

/**
 * Decides the consequence of a status read. Evidence moves the operation, a network failure makes a `submitted`
 * operation `indeterminate`, and in every other case the state stays. `answer` is null when the circuit let no read
 * through.
 *
 * An answer that names another operation id, or another reference than the stored one, proves nothing. An answer that
 * names neither counts: the adapter asked for exactly this operation (see `AnswerNames`). `failures` are those that the adapter
 * declares.
 */
export const decideAfterRead = (
  due: Pick<DueRead, "operation" | "state" | "reference" | "acknowledged" | "taken_at">,
  answer: StatusAnswer | null,
  failures?: DeclaredFailures
): ReadDecision => {
  const contradiction = answer === null || namesNoOperation(answer)
    ? null
    : findContradiction(answer.names, { id: due.operation.id, reference: due.reference })
  return contradiction === null ? decideByRule(due, answer, failures) : { _tag: "Contradicted", contradiction }
}

/** A read that failed, or whose answer was not understood, names no operation. */
const namesNoOperation = (answer: StatusAnswer): answer is Exclude<StatusAnswer, { readonly names: AnswerNames }> =>
  answer._tag === "NotProven" && answer.reason !== "not_found"

/**
 * Both times are by the clock of the database, so a wrong clock of an adapter cannot end an operation whose request the provider may
 * still take.
 */
const isPastDeadline = ({ operation: { send_before }, taken_at }: Pick<DueRead, "operation" | "taken_at">): boolean =>
  send_before === null || DateTime.isGreaterThan(taken_at, send_before)

/** For an answer about this operation. */
const decideByRule = (
  due: Pick<DueRead, "operation" | "state" | "acknowledged" | "taken_at">,
  answer: StatusAnswer | null,
  failures: DeclaredFailures | undefined
): ReadDecision => {
  switch (answer?._tag) {
    case undefined:
      return postpone
    case "Proven": {
      const evidence = answered("status_read", answer.evidence)
      const reference = isProviderReference(answer.names.reference) ? answer.names.reference : null
      if (answer.state === "submitted" && due.state === "submitted") return { _tag: "Postpone", reference }
      const outcome: Outcome = answer.state === "failed"
        ? { state: "failed", failure: publicFailure(failures, answer.code) }
        : { state: answer.state }
      return { _tag: "Record", outcome, evidence, reference }
    }
    case "NeverReceived":
      // The provider contradicts its earlier acknowledgement.
      if (due.acknowledged) return postpone
      if (due.state === "accepted") return { _tag: "Release" }
      return due.state === "indeterminate" && isPastDeadline(due)
        ? {
          _tag: "Record",
          outcome: { state: "failed", failure: gatewayFailure("provider_never_received") },
          evidence: answered("status_read", answer.evidence),
          reference: null
        }
        : postpone
    case "NotProven":
      return due.state === "submitted" && answer.reason === "unreachable"
        ? {
          _tag: "Record",
          outcome: { state: "indeterminate" },
          evidence: { by: "status_read", reason: answer.detail },
          reference: null
        }
        : postpone
  }
}
