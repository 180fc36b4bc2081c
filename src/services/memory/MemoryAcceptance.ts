/**
 * Acceptances in memory.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  type Grant,
  type GrantIdentity,
  type GrantRefusal,
  GrantUnknown,
  refusal,
  type Scope,
  standingAt,
  standingFor
} from "../../domain/Grant.ts"
import { BindingConflict, type FinancialRequest, type InvalidFinancialRequest } from "../../domain/Idempotency.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import { AcceptanceSignal } from "../AcceptanceSignal.ts"
import { type Platform, prepareAcceptance } from "../internal/ledgerRules.ts"
import { makeFindRefusals } from "../internal/refuseUnsendable.ts"
import type { Accepted } from "../OperationLedger.ts"
import type { SealedPayload } from "../PayloadCipher.ts"
import { ProviderPayloads } from "../ProviderPayloads.ts"
import { MemoryLedger, type MemoryRecord } from "./MemoryLedger.ts"

export const makeAccept = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const findRefusals = makeFindRefusals(yield* ProviderPayloads)

  return Effect.fn("OperationLedger.accept")(
    function*(identity: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const { digest, id, payload } = yield* prepareAcceptance(request)
      const refusals = yield* findRefusals(request)
      const at = yield* DateTime.now
      return yield* Effect.suspend(
        (): Effect.Effect<Accepted, GrantRefusal | BindingConflict | InvalidFinancialRequest> => {
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
          const unsendable = refusals.get(grant.provider)
          if (unsendable !== undefined) return unsendable
          const operation = newOperation(id, request, at)
          memory.operations.set(id, newRecord(operation, grant, request, digest, payload, memory.cluster.timeline))
          return Effect.as(signal.announce(grant.provider), { operation, created: true })
        }
      )
    },
    Effect.provideContext(platform)
  )
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

const newRecord = (
  operation: Operation,
  grant: Grant,
  { key }: FinancialRequest,
  digest: string,
  payload: SealedPayload,
  timeline: number
): MemoryRecord => ({
  operation,
  owner: grant,
  scopes: grant.scopes,
  key,
  digest,
  history: [{ revision: 1, from: null, to: "accepted", at: operation.created_at, evidence: null }],
  payload,
  due_at: operation.created_at.epochMilliseconds,
  waiting: false,
  timeline,
  hold_placed: false,
  examined_timeline: null,
  send_before: null,
  claimed_by: null,
  return_reason: null,
  reference: null,
  acknowledged: false,
  reads: 0,
  reviewed_at: null,
  reading_since: null,
  hinted_at: null
})
