/**
 * The room `rules`: what both implementations of a service must decide in the same way. Read this file first: the rules that both ledgers
 * check before they write.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import {
  canTransition,
  IllegalTransition,
  isEvidence,
  isOperationFailure,
  type Operation,
  type Outcome,
  requiresEvidence,
  StaleOperation
} from "../../domain/Operation.ts"

/** Why an operation in this state may not make a transition, or null if it may. */
export const findTransitionError = (
  operation: Operation,
  revision: number,
  to: Outcome,
  evidence: Schema.Json
): StaleOperation | IllegalTransition | null => {
  const { id, state: from } = operation
  if (operation.revision !== revision) {
    return new StaleOperation({ id, expected: revision, actual: operation.revision })
  }
  const illegal = (reason: IllegalTransition["reason"]) => new IllegalTransition({ id, from, to: to.state, reason })
  if (!canTransition(from, to.state)) return illegal("not_permitted")
  if (requiresEvidence(from) && !isEvidence(evidence)) return illegal("evidence_required")
  if (to.state === "failed" && !isOperationFailure(to.failure)) return illegal("invalid_failure")
  return null
}

/** The operation is held and may have been sent, so it cannot end without passing through `submitting`. */
export const heldError = ({ id, state: from }: Operation, to: Outcome) =>
  new IllegalTransition({ id, from, to: to.state, reason: "held" })

/** A worker claimed the operation, or took it over, and may be sending it. It cannot fail meanwhile. */
export const claimedError = ({ id, state: from }: Operation, to: Outcome) =>
  new IllegalTransition({ id, from, to: to.state, reason: "claimed" })

/** The result of a cancellation that found the operation held, or no longer `accepted`. */
export const cancellationResult = (operation: Operation): Effect.Effect<Operation, IllegalTransition> => {
  const { id, state: from } = operation
  if (from === "cancelled") return Effect.succeed(operation)
  return Effect.fail(
    from === "accepted"
      ? heldError(operation, { state: "cancelled" })
      : new IllegalTransition({ id, from, to: "cancelled", reason: "not_permitted" })
  )
}
