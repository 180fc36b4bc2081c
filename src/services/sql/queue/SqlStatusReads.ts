/**
 * Status reads in PostgreSQL: which operations a reconciler reads next, when it reads them again, and hints,
 * which only move a read forward.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { longestSkew } from "../../../domain/ClockSkew.ts"
import type { ProviderName } from "../../../domain/Grant.ts"
import type { OperationId, OperationState } from "../../../domain/Operation.ts"
import type {
  DueRead,
  HintedOperation,
  HintEffect,
  ProviderReference,
  ReadTerms,
  Recording
} from "../../../domain/Submission.ts"
import { returnReason } from "../../queue/Claims.ts"
import {
  mostHinted,
  type Postponement,
  type ReversiblePostponement,
  type ReversibleTerms,
  type StatusReads
} from "../../queue/StatusReads.ts"
import { untilServed } from "../../rules/claimRounds.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import {
  claimableTimeline,
  idle,
  isExamined,
  isUnsent,
  millis,
  nextRead,
  present,
  reviewAfter,
  standing,
  submissionColumns
} from "../queueFragments.ts"
import { makeLowWaterMarks, margin, type Marks, walkedOf } from "./lowWaterMarks.ts"
import { type ClaimRow, makeToClaim, type SubmissionRow, toDate, toProviderOperation } from "./SubmissionRow.ts"

interface ReadRow extends SubmissionRow {
  readonly created_at: Date
  readonly taken_at: Date
  readonly state: OperationState
  readonly reference: ProviderReference | null
  readonly acknowledged: boolean
  readonly reads: number
  readonly fence_started_at: Date | null
  readonly provider_account: string | null
  readonly sent_as: string | null
}

/** The number of due operations, postponed ones included, in each row. A statement returns at least one row. */
interface DueCount {
  readonly due_count: number
  /** Of a search with marks: see `lowWaterMarks`. */
  readonly walked?: number
  readonly mark?: string
}

type TakenRow = DueCount & (ReadRow | { readonly id: null })

const toDueRead = (provider: ProviderName, row: ReadRow): DueRead => ({
  operation: toProviderOperation(row),
  created_at: DateTime.fromDateUnsafe(row.created_at),
  taken_at: DateTime.fromDateUnsafe(row.taken_at),
  provider,
  state: row.state,
  revision: row.revision,
  reference: row.reference,
  acknowledged: row.acknowledged,
  reads: row.reads,
  fence_started_at: row.fence_started_at === null ? null : DateTime.fromDateUnsafe(row.fence_started_at),
  provider_account: row.provider_account,
  sent_as: row.sent_as
})

export const makeStatusReads = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const toClaim = yield* makeToClaim

  const takeIn = (
    statement: string,
    provider: ProviderName,
    left: number,
    durations: ReadonlyArray<Duration.Duration>,
    more: ReadonlyArray<unknown> = []
  ) => {
    const parameters = [provider, ...durations.map((duration) => Duration.toMillis(duration)), ...more]
    return Effect.map(orUnavailable(sql.unsafe<TakenRow>(statement, parameters)), (rows) => ({
      items: rows.filter((row): row is ReadRow & DueCount => row.id !== null)
        .map((row) => toDueRead(provider, row)),
      more: rows[0]!.due_count >= left,
      walked: rows[0]!.walked ?? 0,
      marks: rows[0]!.mark === undefined ? [] : [["", rows[0]!.mark] as const]
    }))
  }

  const take = (statement: string, provider: ProviderName, left: number, terms: ReadTerms, last: unknown) => {
    const { idle, lease, review_indeterminate_after, review_submitted_after } = terms
    const durations = [lease, idle, review_submitted_after, review_indeterminate_after]
    return takeIn(statement, provider, left, durations, [last])
  }

  const searchFromMarks = yield* makeLowWaterMarks
  const takeReads = (provider: ProviderName, limit: number, terms: ReadTerms) =>
    untilServed(limit, (left) =>
      searchFromMarks(
        provider,
        (marks: Marks | null) => take(takeReadsStatement(left), provider, left, terms, marks?.get("") ?? "-infinity")
      ))

  const takeHeld = (provider: ProviderName, limit: number, terms: ReadTerms) =>
    untilServed(
      limit,
      (left) => take(takeHeldStatement(left), provider, left, terms, Duration.toMillis(terms.rescue_after))
    )

  const takeReversible = (provider: ProviderName, limit: number, { idle, lease }: ReversibleTerms) =>
    untilServed(limit, (left) => takeIn(takeReversibleStatement(left), provider, left, [lease, idle]))

  const postponeReversible = Effect.fn("StatusReads.postponeReversible")(
    (id: OperationId, { due_in, ends_after }: ReversiblePostponement) => {
      const parameters = [id, Duration.toMillis(due_in), ends_after === null ? null : Duration.toMillis(ends_after)]
      return Effect.asVoid(orUnavailable(sql.unsafe(postponeReversibleStatement, parameters)))
    }
  )

  const recordReversal = Effect.fn("StatusReads.recordReversal")(
    (id: OperationId, evidence: Recording["evidence"]) =>
      Effect.map(
        orUnavailable(sql.unsafe(recordReversalStatement, [id, JSON.stringify(evidence)])),
        (rows) => rows.length > 0
      )
  )

  const postpone = Effect.fn("StatusReads.postpone")(
    (
      id: OperationId,
      revision: number,
      { answer, due_in, fence_started_at, question, reference, review = false, send_before }: Postponement
    ) => {
      const text = answer === undefined ? null : returnReason(answer)
      const asked = question === null ? "" : question === undefined ? null : returnReason(question)
      const parameters = [
        id,
        revision,
        Duration.toMillis(due_in),
        reference,
        toDate(send_before),
        review,
        text,
        asked,
        fence_started_at !== undefined,
        toDate(fence_started_at)
      ]
      return Effect.map(orUnavailable(sql.unsafe(postponeStatement, parameters)), (rows) => rows.length > 0)
    }
  )

  const hint = Effect.fn("StatusReads.hint")(
    function*(provider: ProviderName, about: HintedOperation, interval: Duration.Duration) {
      const [statement, name] = "reference" in about
        ? [hintByReference, about.reference]
        : [hintById, about.operation_id]
      const rows = yield* orUnavailable(
        sql.unsafe<{ readonly is_due: boolean }>(statement, [provider, name, Duration.toMillis(interval)])
      )
      if (rows.length === 0) return "ignored" satisfies HintEffect
      return (rows.some(({ is_due }) => is_due) ? "due" : "noted") satisfies HintEffect
    }
  )

  const payloadOf = ({ operation: { id } }: { readonly operation: { readonly id: OperationId } }) =>
    Effect.flatMap(orUnavailable(sql.unsafe<ClaimRow>(payloadStatement, [id])), ([row]) => toClaim(row!).payload)

  const mayFence = Effect.fn("StatusReads.mayFence")(
    ({ operation: { id, send_before }, revision }: Parameters<StatusReads["Service"]["mayFence"]>[0]) =>
      Effect.map(
        orUnavailable(
          sql.unsafe<{ readonly fence_started_at: Date }>(mayFenceStatement, [id, revision, toDate(send_before)])
        ),
        ([row]) => row === undefined ? null : DateTime.fromDateUnsafe(row.fence_started_at)
      )
  )

  return {
    takeReads,
    takeHeld,
    takeReversible,
    payloadOf,
    mayFence,
    postpone,
    postponeReversible,
    recordReversal,
    hint
  }
})

/** One more read, up to the maximum of the column: a full count must not fail the other operations of the batch. */
const countRead = "o.reads + (due.active AND o.reads < 2147483647)::integer"

/** The read begins now. A postponed operation is not read. */
const readingSince = "CASE WHEN due.active THEN now() END"

/** Ends a statement whose `due` are the due operations, and whose `taken` returns the updated ones. */
const selectTaken = (more = "") => `
  SELECT due_count${more}, ${present} AS taken_at, ${submissionColumns}, o.created_at, o.state, o.reference, o.acknowledged, o.reads,
    o.fence_started_at, o.provider_account, o.sent_as
  FROM (SELECT count(*)::integer AS due_count FROM due) l
  LEFT JOIN taken o ON o.active`

/**
 * The search begins at the mark `$6`. The next mark is the first operation that is due, locked ones included, or `margin` ago: see
 * `lowWaterMarks`.
 */
const takeReadsStatement = (limit: number) => `
  WITH began AS MATERIALIZED (
    SELECT ${walkedOf("operations_to_read")} AS walked
  ), first AS MATERIALIZED (
    SELECT o.due_at FROM operations o
    WHERE o.state IN ('submitted', 'indeterminate') AND o.provider = $1 AND o.due_at >= $6::text::timestamptz
      AND o.due_at <= now() AND (SELECT walked FROM began) IS NOT NULL
    ORDER BY o.due_at LIMIT 1
  ), due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("read")} AS active
    FROM operations o
    WHERE o.state IN ('submitted', 'indeterminate') AND o.provider = $1
      AND o.due_at >= (SELECT due_at FROM first) AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END, waiting = NOT due.active,
      reads = ${countRead}, reading_since = ${readingSince},
      ${reviewAfter(`CASE o.state WHEN 'submitted' THEN ${millis("$4")} ELSE ${millis("$5")} END`)}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )${
  selectTaken(`, ${walkedOf("operations_to_read")} - (SELECT walked FROM began) AS walked,
    least((SELECT due_at FROM first), now() - ${millis(String(margin))})::text AS mark`)
}`

/**
 * Examines held operations. One that was provably never sent has no status: it is put off, and nothing else of it changes. The
 * claim holder of the earlier timeline may send until its claim is stale, counted from the first examination on this timeline. An
 * older `send_before` does not count: a failover may have restored it together with the hold, and lost a release and a claim that
 * followed.
 */
const takeHeldStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, d.unsent, NOT d.unsent AND ${standing("read")} AS active
    FROM operations o CROSS JOIN LATERAL (SELECT ${isUnsent} AS unsent) d
    WHERE o.state = 'accepted' AND o.provider = $1 AND ${claimableTimeline} < (SELECT ledger_timeline())
      AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = ${countRead}, reading_since = ${readingSince},
      examined_timeline = CASE WHEN due.unsent THEN o.examined_timeline ELSE ledger_timeline() END,
      send_before = CASE WHEN due.unsent OR ${isExamined} THEN o.send_before ELSE now() + ${millis("$6")} END,
      under_review = o.under_review OR NOT due.unsent
        AND (o.reviewed_at IS NULL OR o.reviewed_at <= now() - least(${millis("$4")}, ${millis("$5")}))
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )${selectTaken()}`

/** The reads of an operation that nothing allows to read end with the time in which it may be reversed. */
const takeReversibleStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT r.operation_id, r.client_id, ${standing("read")} AS active, r.until <= now() AS is_last
    FROM reversal_reads r JOIN operations o ON o.id = r.operation_id AND o.client_id = r.client_id
    WHERE r.provider = $1 AND r.due_at <= now()
    ORDER BY r.due_at LIMIT ${limit}
    FOR UPDATE OF r SKIP LOCKED
  ), ended AS (
    DELETE FROM reversal_reads r USING due
    WHERE r.operation_id = due.operation_id AND r.client_id = due.client_id AND due.is_last AND NOT due.active
  ), reading AS (
    UPDATE reversal_reads r
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${millis("$3")} END,
      reading_since = ${readingSince}
    FROM due WHERE r.operation_id = due.operation_id AND r.client_id = due.client_id AND (due.active OR NOT due.is_last)
    RETURNING r.operation_id, r.client_id, due.active
  ), taken AS (
    SELECT o.*, r.active FROM reading r JOIN operations o ON o.id = r.operation_id AND o.client_id = r.client_id
  )${selectTaken()}`

/** Null if the read that `$3` tells of ends none. */
const isLastRead = `until + ${millis("$3")} <= reading_since`

const postponeReversibleStatement = `
  WITH ended AS (
    DELETE FROM reversal_reads WHERE operation_id = $1 AND ${isLastRead}
  )
  UPDATE reversal_reads o
  SET due_at = least(${
  nextRead(millis("$2"), "o.reading_since")
}, CASE WHEN o.until > now() THEN o.until END), reading_since = NULL
  WHERE o.operation_id = $1 AND (${isLastRead}) IS NOT TRUE`

/** The trigger permits it for a succeeded operation alone. */
const recordReversalStatement = `
  WITH ended AS (
    DELETE FROM reversal_reads WHERE operation_id = $1
  )
  INSERT INTO operation_reversals (operation_id, client_id, provider, evidence)
  SELECT id, client_id, provider, $2::json FROM operations WHERE id = $1
  ON CONFLICT DO NOTHING RETURNING operation_id`

const payloadStatement = `
  SELECT ${submissionColumns}, o.created_at, now() AS claimed_at, o.request_digest, y.payload, y.key_id
  FROM operations o LEFT JOIN payloads_of(ARRAY[$1::uuid]) y ON y.operation_id = o.id AND y.client_id = o.client_id
  WHERE o.id = $1`

const mayFenceStatement = `
  UPDATE operations o
  SET fence_started_at = coalesce(o.fence_started_at, now()), fencing_until = greatest(o.fencing_until, o.due_at)
  WHERE o.id = $1 AND o.revision = $2 AND o.state = 'indeterminate' AND o.reference IS NULL AND NOT o.acknowledged
    AND o.send_before = $3 AND o.send_before < now() - ${millis(String(longestSkew))}
    AND o.due_at > now() AND ${standing("send")}
  RETURNING o.fence_started_at`

const postponeStatement = `
  UPDATE operations o
  SET due_at = ${nextRead(millis("$3"))}, reading_since = NULL, reference = coalesce(o.reference, $4),
    last_read = CASE WHEN $7::text IS NULL THEN o.last_read
      ELSE json_build_object('read', o.reads, 'at', (extract(epoch FROM now()) * 1000)::bigint, 'answer', $7, 'question', nullif(coalesce($8::text, o.last_read ->> 'question'), '')) END,
    under_review = o.under_review OR ($6::boolean AND coalesce(o.reviewed_at < o.updated_at, true))
  WHERE o.id = $1 AND o.revision = $2
    AND (NOT $9::boolean OR o.fence_started_at IS NOT DISTINCT FROM $10::timestamptz)
    AND CASE o.state
    WHEN 'accepted' THEN o.send_before = $5::timestamptz AND ${isExamined}
    ELSE o.state IN ('submitted', 'indeterminate') AND ($5 IS NULL OR o.send_before = $5)
  END
  RETURNING o.id`

/**
 * When the read is due that a hint asks for: now, or an interval after the last such read. If the clock was set back, that one
 * may be far ahead. Then it does not count.
 */
const asked = `CASE WHEN o.hinted_at IS NULL THEN ${present}
    ELSE greatest(${present}, least(o.hinted_at, ${present} + ${millis("$3")}) + ${millis("$3")}) END`

/**
 * When the submission or the status read under way began. The hint may be older than its answer, so the next read follows it.
 * Null: none is under way. The lease of a read lasts until `due_at`.
 */
const underWayOf = (state: string) => `CASE ${state} WHEN o.due_at > now() THEN o.reading_since END`
const underWay = underWayOf("WHEN o.state = 'submitting' THEN o.updated_at")
const readUnderWay = underWayOf("")

const moveForward = (underWay: string) => `
    SET hinted_at = greatest(${asked}, ${underWay} + interval '1 millisecond'),
      due_at = CASE WHEN ${underWay} IS NULL THEN ${asked} ELSE o.due_at END`

const movesForward = (underWay: string) =>
  `CASE WHEN ${underWay} IS NULL THEN o.due_at > ${asked} ELSE (o.hinted_at > ${underWay}) IS NOT TRUE END`

/** The conditions are on the updated row, so PostgreSQL checks them again after it waited for a lock. */
const hintStatement = (found: string) => `
  WITH f AS MATERIALIZED (${found}), unsettled AS (
    UPDATE operations o ${moveForward(underWay)}
    FROM f
    WHERE o.id = f.id AND o.client_id = f.client_id AND o.provider = $1
      AND (o.state IN ('submitting', 'submitted', 'indeterminate')
        OR o.state = 'accepted' AND ${claimableTimeline} < (SELECT ledger_timeline()))
      AND ${movesForward(underWay)}
    RETURNING o.state <> 'submitting' AND o.due_at <= now() AS is_due
  ), reversible AS (
    UPDATE reversal_reads o ${moveForward(readUnderWay)}
    FROM f WHERE o.operation_id = f.id AND o.client_id = f.client_id AND o.provider = $1 AND ${
  movesForward(readUnderWay)
}
    RETURNING o.due_at <= now() AS is_due
  )
  SELECT is_due FROM unsettled UNION ALL SELECT is_due FROM reversible`

const hintById = hintStatement("SELECT id, client_id FROM operations WHERE id = $2")

/** Limited before the other conditions: references may repeat, and all settled operations keep theirs. */
const hintByReference = hintStatement(
  `SELECT id, client_id FROM operations WHERE reference = $2 ORDER BY updated_at DESC, id DESC LIMIT ${mostHinted}`
)
