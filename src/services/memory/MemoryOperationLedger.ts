/**
 * The ledger in memory. Each lookup and the write that follows it happen in one synchronous step.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import {
  type GrantIdentity,
  type GrantRefusal,
  GrantUnknown,
  refusal,
  type Scope,
  standingAt,
  standingFor
} from "../../domain/Grant.ts"
import { BindingConflict, type FinancialRequest } from "../../domain/Idempotency.ts"
import type { IllegalTransition, StaleOperation } from "../../domain/Operation.ts"
import {
  AlreadySettled,
  type Operation,
  type OperationId,
  OperationNotFound,
  type Outcome
} from "../../domain/Operation.ts"
import { AcceptanceSignal } from "../AcceptanceSignal.ts"
import {
  cancellationResult,
  findTransitionError,
  heldError,
  type Platform,
  prepareAcceptance
} from "../internal/ledgerRules.ts"
import type { Accepted } from "../OperationLedger.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import { isFree, moveRecord } from "./recordRules.ts"

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.makeUnsafe(millis))

  const timeline = () => memory.cluster.timeline

  const record = (id: OperationId) =>
    Effect.suspend(() => {
      const found = memory.operations.get(id)
      return found === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(found)
    })

  const accept = Effect.fn("OperationLedger.accept")(
    function*(identity: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const { digest, id, payload } = yield* prepareAcceptance(request)
      const at = yield* now
      return yield* Effect.suspend((): Effect.Effect<Accepted, GrantRefusal | BindingConflict> => {
        const grant = memory.grantOf(identity)
        if (grant === undefined) return Effect.fail(new GrantUnknown())
        const refused = refusal(standingFor(identity, standingAt(grant, scope, at), scope), scope)
        if (refused !== null) return Effect.fail(refused)
        const bound = [...memory.operations.values()].find(({ key, owner }) =>
          key === request.key && owner.client_id === grant.client_id && owner.subject === grant.subject
        )
        if (bound !== undefined) {
          return bound.digest === digest && bound.owner.resource_owner === grant.resource_owner
            ? Effect.succeed({ operation: bound.operation, created: false })
            : Effect.fail(new BindingConflict({ key: request.key }))
        }
        const operation = newOperation(id, request, at)
        memory.operations.set(id, {
          operation,
          owner: grant,
          scopes: grant.scopes,
          key: request.key,
          digest,
          history: [{ revision: 1, from: null, to: "accepted", at, evidence: null }],
          payload,
          due_at: at.epochMilliseconds,
          waiting: false,
          timeline: memory.cluster.timeline,
          hold_placed: false,
          examined_timeline: null,
          send_before: null,
          reference: null,
          acknowledged: false,
          reads: 0,
          reviewed_at: null
        })
        return Effect.as(signal.announce(grant.provider), { operation, created: true })
      })
    },
    Effect.provideContext(platform)
  )

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const at = yield* now
      return yield* Effect.suspend(
        (): Effect.Effect<Operation, OperationNotFound | StaleOperation | IllegalTransition> => {
          const found = memory.operations.get(id)
          if (found === undefined) return Effect.fail(new OperationNotFound({ id }))
          const refused = findTransitionError(found.operation, revision, to, evidence)
          if (refused !== null) return Effect.fail(refused)
          if (to.state !== "submitting" && found.operation.state === "accepted" && !isFree(found, timeline())) {
            return Effect.fail(heldError(found.operation, to))
          }
          const moved = moveRecord(found, to, evidence, at, null)
          memory.operations.set(id, moved)
          return Effect.succeed(moved.operation)
        }
      )
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const at = yield* now
    return yield* Effect.flatMap(record(id), (found) => {
      if (!isFree(found, timeline())) return cancellationResult(found.operation)
      const moved = moveRecord(found, { state: "cancelled" }, evidence, at, null)
      memory.operations.set(id, moved)
      return Effect.succeed(moved.operation)
    })
  })

  const review = Effect.fn("OperationLedger.review")(function*(id: OperationId, underReview: boolean) {
    const at = yield* now
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
    transition,
    cancel,
    review,
    show: (id: OperationId) => Effect.map(record(id), ({ operation }) => operation),
    isEmpty: Effect.sync(() => memory.operations.size === 0),
    history: (id: OperationId) => Effect.map(record(id), ({ history }) => history)
  }
})

const newOperation = (id: OperationId, { type }: FinancialRequest, at: DateTime.Utc): Operation => ({
  id,
  type,
  state: "accepted",
  terminal: false,
  submission_uncertain: false,
  under_review: false,
  revision: 1,
  created_at: at,
  updated_at: at,
  completed_at: null,
  failure: null
})
