/**
 * An operation as operators see it: the columns, and the record of a row. Neither payload nor digest is among them; the terms are sealed.
 */
import * as Duration from "effect/Duration"
import type {
  ClientId,
  GrantId,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderName,
  ResourceOwner,
  Scope
} from "../../../domain/Grant.ts"
import type { IdempotencyKey } from "../../../domain/Idempotency.ts"
import { workerSeenWithin } from "../../../domain/operators/FiguresForm.ts"
import { nextAction } from "../../../domain/operators/nextAction.ts"
import type { Hold, OperationStanding, OperatorSummary } from "../../../domain/operators/OperatorView.ts"
import type { ProviderReference } from "../../../domain/Submission.ts"
import type { ShownTerms } from "../../../domain/Terms.ts"
import { fromRow, type Instant, instantOf, instantOrNull, type OperationRow, publicColumns } from "../OperationRow.ts"
import {
  hasLiveGrant,
  heldByOperator,
  isExamined,
  isFree,
  isUnsent,
  needsDecision,
  openQuestion
} from "../queueFragments.ts"

/** The columns of `operatorColumns`. */
export interface OperatorRow extends OperationRow {
  readonly client_id: ClientId
  readonly resource_owner: ResourceOwner
  readonly provider: ProviderName
  readonly idempotency_key: IdempotencyKey
  readonly reference: ProviderReference | null
  readonly subject: PairwiseSubject
  readonly grant_id: GrantId
  readonly provider_connection_id: ProviderConnectionId
  readonly scopes: ReadonlyArray<Scope>
  readonly due_at: Instant | null
  readonly waiting: boolean
  readonly lacks_key: boolean
  readonly send_before: Instant | null
  readonly claimed_by: string | null
  readonly return_reason: string | null
  readonly reads: number
  readonly reviewed_at: Instant | null
  readonly acknowledged: boolean
  readonly hold_placed: boolean
  readonly by_operator: boolean
  readonly needs_decision: boolean
  readonly is_free: boolean
  readonly is_examined: boolean
  readonly is_unsent: boolean
  readonly is_of_other_timeline: boolean
  readonly client_active: boolean
  readonly provider_connected: boolean
  readonly grant_state: OperationStanding["grant"]
  readonly may_send: boolean
  readonly may_read: boolean
  readonly pause: string | null
  readonly read_at: Instant
  readonly terms: Uint8Array | null
  readonly terms_key_id: string | null
  readonly last_read: {
    readonly read: number
    readonly at: number
    readonly answer: string
    readonly question?: string | null
  } | null
  readonly question: string | null
  readonly fence_started_at: Instant | null
  readonly fencing_until: Instant | null
  readonly reversal_due_at: Instant | null
  readonly reversible_until: Instant | null
  readonly contradicted: boolean
}

/** For how long a process with workers counts as running after its last report. */
export const seenInterval = `interval '${Duration.toSeconds(workerSeenWithin)} seconds'`

const plainColumns = [
  "client_id",
  "resource_owner",
  "provider",
  "idempotency_key",
  "reference",
  "subject",
  "grant_id",
  "provider_connection_id",
  "scopes",
  "due_at",
  "waiting",
  "lacks_key",
  "send_before",
  "claimed_by",
  "return_reason",
  "reads",
  "reviewed_at",
  "acknowledged",
  "hold_placed",
  "terms",
  "terms_key_id",
  "last_read",
  "fence_started_at",
  "fencing_until"
] as const satisfies ReadonlyArray<keyof OperatorRow>

/** A column of the reads of a success that its provider may reverse, of the row `o`. */
const ofReversalRead = (column: "due_at" | "until") =>
  `(SELECT r.${column} FROM reversal_reads r WHERE r.operation_id = o.id AND r.client_id = o.client_id)`

/** The columns of `OperatorRow`, of the row `o`. */
export const operatorColumns = `${publicColumns}, ${plainColumns.map((name) => `o.${name}`).join(", ")},
    ${isFree} AS is_free, ${needsDecision} AS needs_decision, coalesce(${isExamined}, false) AS is_examined,
    ${heldByOperator} AS by_operator,
    CASE WHEN o.state IN ('accepted', 'submitting') THEN ${isUnsent} ELSE false END AS is_unsent,
    o.timeline <> ledger_timeline() AS is_of_other_timeline,
    (SELECT c.active FROM clients c WHERE c.id = o.client_id) AS client_active,
    (SELECT p.connected FROM provider_connections p WHERE p.id = o.provider_connection_id) AS provider_connected,
    (
      SELECT CASE WHEN g.revoked_at IS NOT NULL THEN 'revoked' WHEN g.expires_at <= now() THEN 'expired' ELSE 'live' END
      FROM grants g WHERE g.id = o.grant_id AND g.client_id = o.client_id
    ) AS grant_state,
    ${hasLiveGrant("send")} AS may_send, ${hasLiveGrant("read")} AS may_read,
    (
      SELECT CASE WHEN bool_and(w.pauses ->> o.provider IS NOT NULL) THEN min(w.pauses ->> o.provider) END
      FROM worker_reports w WHERE w.pauses ? o.provider AND w.seen_at >= now() - ${seenInterval}
    ) AS pause, ${openQuestion} AS question, now() AS read_at,
    ${ofReversalRead("due_at")} AS reversal_due_at, ${ofReversalRead("until")} AS reversible_until,
    CASE WHEN o.state IN ('failed', 'cancelled') THEN
      EXISTS (SELECT FROM operation_reversals r WHERE r.operation_id = o.id AND r.client_id = o.client_id)
    ELSE false END AS contradicted`

const holdOf = (row: OperatorRow): Hold | null =>
  row.state !== "accepted" || row.is_free ? null : {
    // An operator's hold after a failover hides nothing that the failover may have lost.
    kind: row.needs_decision
      ? "approval"
      : row.hold_placed && !(row.by_operator && row.is_of_other_timeline)
      ? "placed"
      : "failover",
    examined: row.is_examined,
    releasable_from: row.is_examined && !row.acknowledged ? instantOrNull(row.send_before) : null,
    ...row.by_operator ? { by_operator: true } : {}
  }

/** What client, provider connection and grant allow now. */
export const toStanding = (row: OperatorRow): OperationStanding => ({
  client_active: row.client_active,
  provider_connected: row.provider_connected,
  grant: row.grant_state,
  may_send: row.may_send,
  may_read: row.may_read
})

/**
 * `shown` are the terms for the screen. Does not validate: the triggers and constraints of the table check the values.
 */
export const toSummary = (row: OperatorRow, shown: ShownTerms | null): OperatorSummary => {
  const operation = fromRow(row)
  const hold = holdOf(row)
  const schedule = {
    // A hold of an operation that was never sent leaves nothing to do but to people.
    due_at: hold !== null && row.is_unsent ? null : instantOrNull(row.due_at ?? row.reversal_due_at),
    waiting: row.waiting,
    send_before: instantOrNull(row.send_before),
    claimed_by: row.claimed_by,
    return_reason: row.return_reason,
    reads: row.reads,
    reviewed_at: instantOrNull(row.reviewed_at),
    fence_started_at: instantOrNull(row.fence_started_at),
    fencing_until: instantOrNull(row.fencing_until),
    hold,
    unsent: row.is_unsent
  }
  const { acknowledged, is_of_other_timeline, pause, question } = row
  const { state, under_review } = operation
  const standing = toStanding(row)
  const situation = {
    state,
    under_review,
    acknowledged,
    is_of_other_timeline,
    lacks_key: row.lacks_key,
    schedule,
    standing,
    pause,
    question,
    answer: row.last_read?.answer ?? null,
    reversible_until: instantOrNull(row.reversible_until),
    contradicted: row.contradicted
  }
  return {
    operation,
    client_id: row.client_id,
    resource_owner: row.resource_owner,
    provider: row.provider,
    idempotency_key: row.idempotency_key,
    reference: row.reference,
    terms: shown,
    schedule,
    next: nextAction(situation, instantOf(row.read_at))
  }
}
