/** The rules of `migrations/0006_operation_rules.sql`, for the records of the ledger in memory, and the look-ups of these records. */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import {
  type Grant,
  type GrantId,
  type GrantIdentity,
  type GrantRefusal,
  GrantUnknown,
  operationsRead,
  refusal,
  type Scope,
  standingAt,
  standingFor
} from "../../domain/Grant.ts"
import type { RequestBinding } from "../../domain/Idempotency.ts"
import {
  isTerminal,
  type OperationId,
  OperationNotFound,
  type Outcome,
  submissionUncertain
} from "../../domain/Operation.ts"
import type { ProviderReference } from "../../domain/Submission.ts"
import { approvalEvidence } from "../rules/approvals.ts"
import { type EvidenceFacts, findTransitionError } from "../rules/ledgerRules.ts"
import type { Reservation } from "../rules/limits.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"

/** How long the rescuer waits for the report of a claim that was made by hand, in milliseconds. */
const claimedByHand = 5 * 60_000

const isAccepted = ({ operation }: MemoryRecord) => operation.state === "accepted"

/** An accepted operation that is not held, on this timeline of the database. An examined operation is always held. */
export const isFree = (record: MemoryRecord, timeline: number): boolean =>
  isAccepted(record) && !record.hold_placed && record.examined_timeline === null && record.timeline === timeline

/** An accepted operation that is held: by a hold, or because its timeline is an earlier one. */
export const isHeld = (record: MemoryRecord, timeline: number): boolean =>
  isAccepted(record) && (record.hold_placed || record.timeline < timeline)

/** Held until a person decides. */
export const awaitsApproval = ({ approval }: MemoryRecord): boolean => approval?.state === "pending"

/** A held operation that the reconciler examined on this timeline, so that `send_before` counts. */
export const isExamined = (record: MemoryRecord, timeline: number): boolean =>
  isAccepted(record) && record.examined_timeline === timeline

/** A claim that has a holder: it was not returned. */
export const isHeldClaim = ({ operation, return_reason }: MemoryRecord): boolean =>
  operation.state === "submitting" && return_reason === null

/** A worker has returned the claim, and no other one has taken it over. */
export const isReturnedClaim = ({ operation, return_reason }: MemoryRecord): boolean =>
  operation.state === "submitting" && return_reason !== null

type LedgerHome = Pick<MemoryLedger["Service"], "cluster" | "home">

/** Whether this ledger gives claims of the timeline. */
export const isPresentLedger = ({ cluster, home }: LedgerHome, timeline = cluster.timeline): boolean =>
  timeline === cluster.timeline && (!home.has("epoch") || home.get("life") === cluster.life)

/** Whether the operation was provably never sent, and no worker may send it: `migrations/0020_unsent_operations.sql`. */
export const isUnsent = (record: MemoryRecord, ledger: LedgerHome): boolean => {
  if (record.acknowledged || !isPresentLedger(ledger, record.timeline)) return false
  return isReturnedClaim(record) || isFree(record, ledger.cluster.timeline)
    || isAccepted(record) && record.unsent_in === ledger.cluster.holds
}

/** See `needsDecision` of the SQL queue. */
export const needsDecision = (record: MemoryRecord, ledger: LedgerHome): boolean =>
  awaitsApproval(record) && isUnsent(record, ledger)

/** The provider named the operation. A reference that is known stays. */
export const withReference = (record: MemoryRecord, reference: ProviderReference | null): MemoryRecord => ({
  ...record,
  reference: record.reference ?? reference,
  acknowledged: record.acknowledged || reference !== null
})

/** What evidence is compared with, at an instant. */
export const factsOf = (record: MemoryRecord, now: DateTime.Utc, holder: OperationId | null): EvidenceFacts => ({
  ...record,
  now,
  holder,
  due_at: record.due_at === null ? null : DateTime.makeUnsafe(record.due_at)
})

/**
 * Makes a transition. `due_at` is when the next component acts, in milliseconds since the epoch. Null: at once, and after
 * five minutes for the rescuer. Throws where PostgreSQL refuses.
 */
export const moveRecord = (
  record: MemoryRecord,
  to: Outcome,
  evidence: Schema.Json,
  now: DateTime.Utc,
  due_at: number | null
): MemoryRecord => {
  const { operation } = record
  // The triggers of PostgreSQL refuse the same transitions: they are mistakes of the caller.
  const refused = findTransitionError(operation, operation.revision, to, evidence, factsOf(record, now, null))
  if (refused !== null) throw refused
  const at = DateTime.max(now, operation.updated_at)
  const revision = operation.revision + 1
  const terminal = isTerminal(to.state)
  const { approval } = record
  const isApproved = approval?.state === "approved" && operation.state === "accepted" && to.state === "submitting"
  const told = isApproved && evidence === null ? approvalEvidence(approval) : evidence
  return {
    ...record,
    waiting: false,
    approval: approval?.state === "pending" ? { ...approval, state: "ended", decided_at: at } : approval,
    terms: terminal && record.erases_terms ? null : record.terms,
    operation: {
      ...operation,
      state: to.state,
      terminal,
      submission_uncertain: submissionUncertain(to.state),
      under_review: operation.under_review && !terminal,
      revision,
      updated_at: at,
      completed_at: terminal ? at : null,
      failure: to.state === "failed" ? to.failure : null
    },
    payload: terminal ? null : record.payload,
    due_at: terminal ? null : due_at ?? at.epochMilliseconds + (to.state === "submitting" ? claimedByHand : 0),
    hold_placed: false,
    unsent_in: null,
    examined_timeline: null,
    return_reason: null,
    reading_since: null,
    acknowledged: record.acknowledged || to.state === "submitted",
    history: [...record.history, { revision, from: operation.state, to: to.state, at, evidence: told }]
  }
}

/** Looks an operation up, of any owner, and decides in the same step. */
export const withRecord = <A, E>(
  { operations }: MemoryLedger["Service"],
  id: OperationId,
  decide: (found: MemoryRecord) => Effect.Effect<A, E>
): Effect.Effect<A, E | OperationNotFound> =>
  Effect.suspend((): Effect.Effect<A, E | OperationNotFound> => {
    const found = operations.get(id)
    return found === undefined ? Effect.fail(new OperationNotFound({ id })) : decide(found)
  })

export const findBound = (
  { operations }: MemoryLedger["Service"],
  { client_id, key, subject }: RequestBinding
): MemoryRecord | undefined =>
  [...operations.values()].find((record) =>
    record.key === key && record.owner.client_id === client_id && record.owner.subject === subject
  )

/** What the operations of a grant count. `failed` and `cancelled` release their amount, until the provider proves otherwise. */
export const reservationsOf = ({ operations }: MemoryLedger["Service"], id: GrantId): ReadonlyArray<Reservation> =>
  [...operations.values()].flatMap(({ operation: { state }, owner, reservation, reversal }) =>
    owner.grant_id === id && reservation !== null && (state !== "failed" && state !== "cancelled" || reversal !== null)
      ? [reservation]
      : []
  )

/** Whether a payee received money under a grant, and did not return it. */
export const hasReceived = ({ operations }: MemoryLedger["Service"], id: GrantId, payee: string): boolean =>
  [...operations.values()].some(({ operation, owner, reservation, reversal }) =>
    owner.grant_id === id && reservation?.payee === payee && operation.state === "succeeded" && reversal === null
  )

/** The grant of this identity, if it is in good standing for the scope. */
export const goodGrant = (
  memory: MemoryLedger["Service"],
  identity: GrantIdentity,
  scope: Scope | null,
  at: DateTime.Utc
): Result.Result<Grant, GrantRefusal> => {
  const grant = memory.grantOf(identity)
  if (grant === undefined) return Result.fail(new GrantUnknown())
  const refused = refusal(standingFor(identity, standingAt(grant, scope, at), scope), scope)
  return refused === null ? Result.succeed(grant) : Result.fail(refused)
}

/** Makes the lookup of a grant that may read. It fails with the refusal of any other. */
export const makeGrantOf = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const clock = yield* Clock.Clock
  return (identity: GrantIdentity) =>
    Effect.suspend(() =>
      Effect.fromResult(
        goodGrant(memory, identity, operationsRead, DateTime.makeUnsafe(clock.currentTimeMillisUnsafe()))
      )
    )
})
