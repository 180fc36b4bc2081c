/** Acceptances in memory. */
import * as BigDecimal from "effect/BigDecimal"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { Grant, GrantIdentity, Scope } from "../../domain/Grant.ts"
import { BindingConflict, type FinancialRequest, type InvalidFinancialRequest } from "../../domain/Idempotency.ts"
import { acceptedOperation, type Operation } from "../../domain/Operation.ts"
import type { Acceptance, Accepted, RequestRefusal } from "../Acceptance.ts"
import { approvalDigest, approvalTime, needsApproval } from "../rules/approvals.ts"
import { findRefusal, type LimitSources, type Reservation } from "../rules/limits.ts"
import { makePrepareAcceptance, type Platform, type PreparedRequest, refusalOf } from "../rules/prepareAcceptance.ts"
import { AcceptanceSignal } from "../WorkSignals.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import { findBound, goodGrant, hasReceived, reservationsOf } from "./recordRules.ts"

type Recorded = Effect.Effect<Accepted, RequestRefusal>

export const makeAcceptances = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const prepare = yield* makePrepareAcceptance

  /** Records the operation of a request in one synchronous step, unless the key is bound or the provider refuses it. */
  const record = (grant: Grant, limits: LimitSources, prepared: AskingRequest, at: DateTime.Utc): Recorded => {
    const { digest, id, request } = prepared
    const bound = findBound(memory, { ...grant, key: request.key })
    if (bound !== undefined) {
      return bound.digest === digest && bound.owner.provider_connection_id === grant.provider_connection_id
        ? Effect.succeed({ operation: bound.operation, created: false })
        : Effect.fail(new BindingConflict({ key: request.key }))
    }
    const unsendable = refusalOf(prepared, grant.provider)
    if (unsendable !== undefined) return unsendable
    const operation = acceptedOperation(id, request.type, at)
    const accepted = newRecord(operation, grant, prepared, memory.cluster.timeline)
    if (limits.every((details) => details === undefined)) {
      memory.operations.set(id, accepted)
      return Effect.succeed({ operation, created: true })
    }
    const refused = findRefusal(request, limits, reservationsOf(memory, grant.grant_id), at)
    if (refused !== null) return Effect.fail(refused)
    const limited = { ...accepted, reservation: reservationOf(request, at) }
    const waits = needsApproval(request, limits, (payee) => hasReceived(memory, grant.grant_id, payee))
    const recorded = waits ? waiting(limited, prepared, memory.cluster.holds) : limited
    memory.operations.set(id, recorded)
    return Effect.succeed({ operation: recorded.operation, created: true })
  }

  /** Checks the grant and records the requests, all in one synchronous step. Then it finds their results. */
  const recordAll = Effect.fnUntraced(function*(
    identity: GrantIdentity,
    requests: ReadonlyArray<Exit.Exit<PreparedRequest, InvalidFinancialRequest>>,
    scope: Scope | null
  ) {
    const prepared = yield* Effect.forEach(requests, (exit) => Effect.exit(Effect.flatMap(exit, asking)))
    const at = yield* DateTime.now
    const { grant, recorded } = yield* Effect.fromResult(
      Result.map(goodGrant(memory, identity, scope, at), (grant) => ({
        grant,
        recorded: prepared.map((exit): Recorded =>
          Exit.isFailure(exit)
            ? Exit.failCause(exit.cause)
            : record(grant, [grant.authorization_details, identity.authorization_details], exit.value, at)
        )
      }))
    )
    const results = yield* Effect.forEach(recorded, Effect.exit)
    if (results.some((result) => Exit.isSuccess(result) && result.value.created)) {
      yield* signal.announce(grant.provider)
    }
    return results
  })

  const accept = Effect.fn("OperationLedger.accept")(
    function*(identity: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const [result] = yield* recordAll(identity, [Exit.succeed(yield* prepare(request))], scope)
      return yield* result!
    },
    Effect.provideContext(platform)
  )

  const acceptAll = Effect.fn("OperationLedger.acceptAll")(
    function*(identity: GrantIdentity, requests: ReadonlyArray<FinancialRequest>, scope: Scope | null = null) {
      const prepared = yield* Effect.forEach(requests, (request) => Effect.exit(prepare(request)))
      // Without a valid request the grant is not checked, as with `accept`.
      if (prepared.every(Exit.isFailure)) return prepared.map((exit): Acceptance => Exit.failCause(exit.cause))
      return yield* recordAll(identity, prepared, scope)
    },
    Effect.provideContext(platform)
  )

  return { accept, acceptAll }
})

interface AskingRequest extends PreparedRequest {
  readonly approvalDigest: string
}

const asking = (prepared: PreparedRequest) =>
  Effect.map(approvalDigest(prepared), (approvalDigest): AskingRequest => ({ ...prepared, approvalDigest }))

/** What a permitted request counts. Its terms are there, or the limits had refused it. */
const reservationOf = ({ terms, type }: FinancialRequest, at: DateTime.Utc): Reservation => ({
  type,
  currency: terms!.currency,
  amount: BigDecimal.fromStringUnsafe(terms!.amount),
  at,
  payee: terms!.kept === false ? null : terms!.payee
})

/** Held for its approval from the acceptance on: no worker could claim it, so it was never sent. */
const waiting = (
  record: MemoryRecord,
  { approvalDigest: request_digest, terms }: AskingRequest,
  unsent_in: number
): MemoryRecord => {
  const { operation } = record
  const expires_at = DateTime.add(operation.created_at, { milliseconds: approvalTime })
  return {
    ...record,
    operation: { ...operation, under_review: true },
    approval: {
      request_digest,
      state: "pending",
      expires_at,
      decided_at: null,
      decided_as: null,
      decider: null,
      reason: null
    },
    terms,
    hold_placed: true,
    unsent_in
  }
}

const newRecord = (
  operation: Operation,
  grant: Grant,
  { digest, payload, request: { key, terms } }: PreparedRequest,
  timeline: number
): MemoryRecord => ({
  operation,
  owner: grant,
  scopes: grant.scopes,
  key,
  digest,
  history: [{ revision: 1, from: null, to: "accepted", at: operation.created_at, evidence: null }],
  limited_by_grant: grant.authorization_details !== undefined,
  reservation: null,
  approval: null,
  terms: null,
  erases_terms: terms?.kept === false,
  payload,
  due_at: operation.created_at.epochMilliseconds,
  waiting: false,
  timeline,
  hold_placed: false,
  hold_outlasts_approval: false,
  unsent_in: null,
  examined_timeline: null,
  send_before: null,
  claimed_by: null,
  return_reason: null,
  reference: null,
  acknowledged: false,
  reads: 0,
  reviewed_at: null,
  reading_since: null,
  hinted_at: null,
  fence_started_at: null,
  fencing_until: null,
  provider_account: null,
  sent_as: null,
  reversal_read: null,
  reversal: null
})
