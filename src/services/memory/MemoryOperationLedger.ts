/** The ledger in memory. Each lookup and the write that follows it happen in one synchronous step. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { RequestBinding } from "../../domain/Idempotency.ts"
import { AlreadySettled, type Operation, type OperationId, type Outcome } from "../../domain/Operation.ts"
import { statedReference } from "../../domain/OperatorEvidence.ts"
import { ProviderReference, StillHeld } from "../../domain/Submission.ts"
import {
  blockedError,
  cancellationOf,
  cancellationResult,
  findTransitionError,
  isOutcome
} from "../rules/ledgerRules.ts"
import { makeAcceptances } from "./MemoryAcceptance.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import {
  awaitsApproval,
  factsOf,
  findBound,
  isPresentLedger,
  isReturnedClaim,
  isUnsent,
  moveRecord,
  needsDecision,
  withRecord,
  withReference
} from "./recordRules.ts"

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger

  const { accept, acceptAll } = yield* makeAcceptances

  /** Another operation that has the reference of the evidence: see `factsStatement` of the SQL ledger. */
  const holderOf = ({ operation, owner: { provider }, provider_account }: MemoryRecord, evidence: Schema.Json) => {
    const stated = statedReference(evidence)
    if (stated === null) return null
    const holder = [...memory.operations.values()].find((other) =>
      other.reference === stated.text && other.owner.provider === provider && other.operation.id !== operation.id
      && (other.provider_account ?? provider_account) === (provider_account ?? other.provider_account)
    )
    return holder?.operation.id ?? null
  }

  const findRefusal = (found: MemoryRecord, revision: number, to: Outcome, evidence: Schema.Json, at: DateTime.Utc) => {
    const { operation } = found
    const refused = findTransitionError(
      operation,
      revision,
      to,
      evidence,
      factsOf(found, at, holderOf(found, evidence))
    )
    return refused ?? (mayMove(found, to, at) ? null : blockedError(operation, to))
  }

  /** See `transitionStatement` of the SQL ledger. */
  const mayMove = (found: MemoryRecord, to: Outcome, at: DateTime.Utc): boolean => {
    const { operation: { state }, send_before, timeline } = found
    const isSendable = send_before !== null && DateTime.isLessThan(at, send_before)
    if (state === "accepted") return to.state === "submitting" ? !needsDecision(found, memory) : isUnsent(found, memory)
    if (to.state !== "failed") return true
    if (state === "indeterminate") return !isSendable
    if (state !== "submitting") return true
    if (isReturnedClaim(found)) return isUnsent(found, memory)
    // A claim by hand has no holder.
    return send_before === null
      || !isSendable && found.due_at! <= at.epochMilliseconds && isPresentLedger(memory, timeline)
  }

  const moved = (found: MemoryRecord, to: Outcome, evidence: Schema.Json, at: DateTime.Utc): Operation => {
    const record = moveRecord(found, to, evidence, at, null)
    memory.operations.set(record.operation.id, record)
    return record.operation
  }

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const at = yield* DateTime.now
      return yield* withRecord(memory, id, (found) => {
        const refused = findRefusal(found, revision, to, evidence, at)
        if (refused !== null) return Effect.fail(refused)
        const stated = isOutcome(found.operation.state, to) ? statedReference(evidence) : null
        const reference = stated?.isOfPayment === true ? ProviderReference.make(stated.text) : null
        return Effect.succeed(moved(withReference(found, reference), to, evidence, at))
      })
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const at = yield* DateTime.now
    return yield* withRecord(memory, id, (found) =>
      isUnsent(found, memory)
        ? Effect.succeed(moved(found, cancellationOf(found.operation), evidence, at))
        : cancellationResult(found.operation))
  })

  const review = Effect.fn("OperationLedger.review")(function*(id: OperationId, underReview: boolean) {
    const at = yield* DateTime.now
    return yield* withRecord(memory, id, (found): Effect.Effect<Operation, AlreadySettled | StillHeld> => {
      const { state, terminal } = found.operation
      if (terminal) return Effect.fail(new AlreadySettled({ id, state }))
      if (!underReview && awaitsApproval(found)) {
        return Effect.fail(new StillHeld({ id, reason: "approval", until: null }))
      }
      const operation = { ...found.operation, under_review: underReview }
      memory.operations.set(id, { ...found, operation, reviewed_at: underReview ? found.reviewed_at : at })
      return Effect.succeed(operation)
    })
  })

  return {
    accept,
    acceptAll,
    transition,
    cancel,
    review,
    show: (id: OperationId) => withRecord(memory, id, ({ operation }) => Effect.succeed(operation)),
    bound: (binding: RequestBinding) => Effect.sync(() => findBound(memory, binding)?.operation ?? null),
    isEmpty: Effect.sync(() => memory.operations.size === 0),
    returnReason: (id: OperationId) => withRecord(memory, id, ({ return_reason }) => Effect.succeed(return_reason)),
    history: (id: OperationId) => withRecord(memory, id, ({ history }) => Effect.succeed(history))
  }
})
