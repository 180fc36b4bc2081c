/**
 * The ledger in memory. Each lookup and the write that follows it happen in one synchronous step.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { RequestBinding } from "../../domain/Idempotency.ts"
import {
  AlreadySettled,
  type IllegalTransition,
  type Operation,
  type OperationId,
  OperationNotFound,
  type Outcome,
  type StaleOperation
} from "../../domain/Operation.ts"
import { cancellationResult, claimedError, findTransitionError, heldError } from "../rules/ledgerRules.ts"
import { makeAcceptances } from "./MemoryAcceptance.ts"
import { MemoryLedger, type MemoryRecord } from "./MemoryLedger.ts"
import { isFree, isHeldClaim, moveRecord } from "./recordRules.ts"

const isSendable = ({ send_before }: MemoryRecord, at: DateTime.Utc): boolean =>
  send_before !== null && DateTime.isGreaterThan(send_before, at)

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger

  const timeline = () => memory.cluster.timeline

  const record = (id: OperationId) =>
    Effect.suspend(() => {
      const found = memory.operations.get(id)
      return found === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(found)
    })

  const { accept, acceptAll } = yield* makeAcceptances

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const at = yield* DateTime.now
      return yield* Effect.suspend(
        (): Effect.Effect<Operation, OperationNotFound | StaleOperation | IllegalTransition> => {
          const found = memory.operations.get(id)
          if (found === undefined) return Effect.fail(new OperationNotFound({ id }))
          const refused = findTransitionError(found.operation, revision, to, evidence)
          if (refused !== null) return Effect.fail(refused)
          if (to.state !== "submitting" && found.operation.state === "accepted" && !isFree(found, timeline())) {
            return Effect.fail(heldError(found.operation, to))
          }
          if (to.state === "failed" && isHeldClaim(found) && isSendable(found, at)) {
            return Effect.fail(claimedError(found.operation, to))
          }
          const moved = moveRecord(found, to, evidence, at, null)
          memory.operations.set(id, moved)
          return Effect.succeed(moved.operation)
        }
      )
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const at = yield* DateTime.now
    return yield* Effect.flatMap(record(id), (found) => {
      if (!isFree(found, timeline())) return cancellationResult(found.operation)
      const moved = moveRecord(found, { state: "cancelled" }, evidence, at, null)
      memory.operations.set(id, moved)
      return Effect.succeed(moved.operation)
    })
  })

  const review = Effect.fn("OperationLedger.review")(function*(id: OperationId, underReview: boolean) {
    const at = yield* DateTime.now
    return yield* Effect.flatMap(record(id), (found) => {
      const { state, terminal } = found.operation
      if (terminal) return Effect.fail(new AlreadySettled({ id, state }))
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
    show: (id: OperationId) => Effect.map(record(id), ({ operation }) => operation),
    bound: ({ client_id, key, subject }: RequestBinding) =>
      Effect.sync(() => {
        const found = [...memory.operations.values()].find((record) =>
          record.key === key && record.owner.client_id === client_id && record.owner.subject === subject
        )
        return found?.operation ?? null
      }),
    isEmpty: Effect.sync(() => memory.operations.size === 0),
    returnReason: (id: OperationId) => Effect.map(record(id), ({ return_reason }) => return_reason),
    history: (id: OperationId) => Effect.map(record(id), ({ history }) => history)
  }
})
