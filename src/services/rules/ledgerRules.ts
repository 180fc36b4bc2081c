/**
 * The room `services/rules`: what both implementations of a service must decide in the same way. Read this file first: the rules that both ledgers
 * check before they write.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { gatewayFailure } from "../../domain/GatewayFailures.ts"
import {
  canTransition,
  IllegalTransition,
  isEvidence,
  isOperationFailure,
  isTerminal,
  type Operation,
  type OperationId,
  type OperationState,
  type Outcome,
  requiresEvidence,
  StaleOperation
} from "../../domain/Operation.ts"
import { hasAskedAt, isByOperator, statedReference } from "../../domain/OperatorEvidence.ts"
import { validateAskedAt } from "../../domain/operators/validateAskedAt.ts"
import { longestSendWithin, StillHeld } from "../../domain/Submission.ts"
import { visible } from "../../domain/VisibleText.ts"

/** What instants and references in evidence are compared with. */
export interface EvidenceFacts {
  /** By the clock of the ledger. */
  readonly now: DateTime.Utc
  /** That of the claim. Null: none. */
  readonly send_before: DateTime.Utc | null
  /** Why the claim was returned, so that it sent nothing. Null: it was not. */
  readonly return_reason: string | null
  /** When a fence of the operation began. Null: none did. */
  readonly fence_started_at: DateTime.Utc | null
  /** When the last fence of the operation has ended, at the latest: its orders have left by then. Null: none began. */
  readonly fencing_until: DateTime.Utc | null
  /** The provider has named its order of the operation. */
  readonly acknowledged: boolean
  /** The provider's reference of the operation. Null: none is known. */
  readonly reference: string | null
  /** When the next component acts: the rescuer, of a claim. Null: the operation is settled. */
  readonly due_at: DateTime.Utc | null
  /** Another operation that has the reference of the evidence, at the same provider and perhaps the same account. Null: none. */
  readonly holder: OperationId | null
}

const isByFence = Schema.is(
  Schema.Struct({ by: Schema.Literal("fence"), fence_started_at: Schema.optionalKey(Schema.Json) })
)

/** As the trigger `operations_evidence_unfenced`, but for evidence of a person, of which `validateAskedAt` checks the instant. */
const provesUnpaid = (evidence: Schema.Json, began: DateTime.Utc, acknowledged: boolean): boolean =>
  isByOperator(evidence)
  || (isByFence(evidence) ? !acknowledged && evidence.fence_started_at === DateTime.formatIso(began) : acknowledged)

/** A person ends an operation that may have been sent: only the answer of its provider says how. A returned claim may be cancelled. */
const isOutcomeByOperator = (
  from: OperationState,
  to: Outcome,
  evidence: Schema.Json,
  return_reason: string | null
): boolean => {
  const isCancellation = return_reason !== null && to.state === "failed" && to.failure.code === cancelledUnsent.code
  return from !== "accepted" && isTerminal(to.state) && isByOperator(evidence) && !isCancellation
}

/** Whether the transition ends an operation that may have been sent, or whose claim was returned. */
export const isOutcome = (from: OperationState, to: Outcome): boolean =>
  from !== "accepted" && (to.state === "succeeded" || to.state === "failed")

/** What is wrong with the reference by which a person ends an operation. Null: nothing. As the trigger `operations_evidence_reference`. */
const referenceFault = (evidence: Schema.Json, { holder, reference }: EvidenceFacts): string | null => {
  const stated = statedReference(evidence)
  if (stated === null) return null
  if (holder !== null) {
    return `the reference is that of operation ${holder}, and one payment ends one operation. Ask the provider for that of this one`
  }
  return stated.isOfPayment && reference !== null && reference !== stated.text
    ? `the provider named the operation ${visible(reference)}: give that reference. If yours is that of the answer, `
      + "say so with \"reference_of\": \"answer\""
    : null
}

const evidenceFault = (
  operation: Operation,
  to: Outcome,
  evidence: Schema.Json,
  facts: EvidenceFacts
): string | null => {
  const { fencing_until, now, return_reason, send_before } = facts
  const isFailure = to.state === "failed"
  const faults = [
    hasAskedAt(evidence)
      ? validateAskedAt(evidence.asked_at, {
        created_at: operation.created_at.epochMilliseconds,
        now: now.epochMilliseconds,
        sendable_until: isFailure && operation.state !== "accepted" && return_reason === null
          ? send_before?.epochMilliseconds ?? null
          : null,
        fencing_until: isOutcome(operation.state, to) ? fencing_until?.epochMilliseconds ?? null : null,
        isFailure
      })
      : null,
    isOutcome(operation.state, to) ? referenceFault(evidence, facts) : null
  ].filter((fault) => fault !== null)
  return faults.length === 0 ? null : faults.join("; ")
}

/** A state that an answer to the worker may contradict. `indeterminate` would forget until when an answer may come. */
const isGuess = ({ state }: Outcome): boolean => state === "failed" || state === "indeterminate"

/**
 * Until when the worker of a claim may wait for the answer: then the rescuer ends it. Null: it does not. A claim by hand has no
 * `send_before`, and no worker.
 */
const answeredBy = (
  state: OperationState,
  { due_at, now, return_reason, send_before }: Pick<EvidenceFacts, "due_at" | "now" | "return_reason" | "send_before">
): DateTime.Utc | null =>
  state === "submitting" && return_reason === null && send_before !== null && due_at !== null
    && DateTime.isGreaterThan(due_at, now)
    ? due_at
    : null

/** Why an operation in this state may not make a transition, or null if it may. */
export const findTransitionError = (
  operation: Operation,
  revision: number,
  to: Outcome,
  evidence: Schema.Json,
  facts: EvidenceFacts
): StaleOperation | IllegalTransition | null => {
  const { id, state: from } = operation
  if (operation.revision !== revision) {
    return new StaleOperation({ id, expected: revision, actual: operation.revision })
  }
  const illegal = (reason: IllegalTransition["reason"], detail: string | null = null) =>
    new IllegalTransition({ id, from, to: to.state, reason, ...detail === null ? {} : { detail } })
  if (!canTransition(from, to.state)) return illegal("not_permitted")
  const fault = evidenceFault(operation, to, evidence, facts)
  const { acknowledged, fence_started_at, return_reason } = facts
  const needsEvidence = requiresEvidence(from) || isOutcomeByOperator(from, to, evidence, return_reason)
  if (needsEvidence && !isEvidence(evidence)) return illegal("evidence_required", fault)
  if (to.state === "failed" && !isOperationFailure(to.failure)) return illegal("invalid_failure")
  if (to.state === "failed" && fence_started_at !== null && !provesUnpaid(evidence, fence_started_at, acknowledged)) {
    return illegal("fenced")
  }
  if (fault !== null) return illegal("evidence_refused", fault)
  const until = isGuess(to) && isByOperator(evidence) ? answeredBy(from, facts) : null
  return until === null
    ? null
    : illegal("claimed", `not before ${DateTime.formatIso(until)}, and it is ${DateTime.formatIso(facts.now)} now`)
}

/** What clients read of an operation whose returned claim was cancelled: the specification has no way from `submitting` to `cancelled`. */
export const cancelledUnsent = gatewayFailure("cancelled_unsent")

/** The transition of a cancellation. */
export const cancellationOf = ({ state }: Operation): Outcome =>
  state === "accepted" ? { state: "cancelled" } : { state: "failed", failure: cancelledUnsent }

/**
 * The operation may not make a permitted transition now. An accepted one waits for an approval, so no hand may claim it; or it is held and may
 * have been sent, so it cannot end without passing through `submitting`. A claimed one may be sent meanwhile, and so may one whose outcome is
 * unknown.
 */
export const blockedError = ({ id, state: from }: Operation, to: Outcome) => {
  const ofAccepted = to.state === "submitting" ? "approval" : "held"
  const reason = from === "submitting" ? "claimed" : from === "indeterminate" ? "sendable" : ofAccepted
  return new IllegalTransition({ id, from, to: to.state, reason })
}

/** The result of a cancellation that changed nothing: the operation is cancelled already, or nothing proves that it was never sent. */
export const cancellationResult = (operation: Operation): Effect.Effect<Operation, IllegalTransition> => {
  const { id, state: from } = operation
  if (from === "cancelled" || operation.failure?.code === cancelledUnsent.code) return Effect.succeed(operation)
  return Effect.fail(
    from === "accepted"
      ? blockedError(operation, { state: "cancelled" })
      : new IllegalTransition({ id, from, to: "cancelled", reason: "not_permitted" })
  )
}

interface HoldFacts {
  readonly is_free: boolean
  readonly is_examined: boolean
  readonly acknowledged: boolean
  readonly send_before: DateTime.Utc | null
}

/** The result of a hold that changed nothing: the operation is held already, or no longer `accepted`. */
export const holdResult = (operation: Operation): Effect.Effect<Operation, IllegalTransition> => {
  const { id, state: from } = operation
  return from === "accepted"
    ? Effect.succeed(operation)
    : Effect.fail(new IllegalTransition({ id, from, to: "accepted", reason: "only_accepted" }))
}

/** The result of a release that changed nothing: the operation is free, or it may not be released. */
export const releaseResult = (
  operation: Operation,
  { acknowledged, is_examined, is_free, send_before }: HoldFacts
): Effect.Effect<Operation, StillHeld | IllegalTransition> => {
  const { id, state: from } = operation
  if (from !== "accepted") {
    return Effect.fail(new IllegalTransition({ id, from, to: "submitting", reason: "only_held" }))
  }
  if (is_free) return Effect.succeed(operation)
  const reason = acknowledged ? "acknowledged" : is_examined ? "sendable" : "unexamined"
  return Effect.fail(new StillHeld({ id, reason, until: reason === "sendable" ? send_before : null }))
}

/** What the history says of transitions to `indeterminate` that no holder of a claim recorded. */
export const rescueEvidence = {
  by: "rescuer",
  reason: "the worker that claimed the operation did not record what became of it"
} as const

/** For `rescueClaimsOf`. */
export const restartEvidence = {
  by: "rescuer",
  reason: "the worker that claimed the operation started again, and had not recorded what became of it"
} as const

/** For a ledger that was moved or rolled back. */
export const rollbackEvidence = {
  by: "rescuer",
  reason: "the ledger was moved or restored, and a worker may have sent the operation after the copy was made"
} as const

/**
 * Milliseconds for which a take-over that a rollback lost may send. If the operation could be sent for longer after its first
 * claim, that time applies.
 */
export const lostTakeOver = Duration.toMillis(longestSendWithin)
