/**
 * Status reads in PostgreSQL: which operations a reconciler reads next, and when it reads them again.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationId, OperationState } from "../../domain/Operation.ts"
import type { DueRead, ProviderReference, ReadTerms, Recording } from "../../domain/Submission.ts"
import { untilServed } from "../rules/untilServed.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { makeLowWaterMarks, margin, type Marks, walkedOf } from "./lowWaterMarks.ts"
import {
  claimableTimeline,
  idle,
  isExamined,
  millis,
  nextRead,
  present,
  reviewAfter,
  standing,
  submissionColumns
} from "./queueFragments.ts"
import { type SubmissionRow, toDate, toProviderOperation } from "./SubmissionRow.ts"

interface ReadRow extends SubmissionRow {
  readonly taken_at: Date
  readonly state: OperationState
  readonly reference: ProviderReference | null
  readonly acknowledged: boolean
  readonly reads: number
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
  taken_at: DateTime.fromDateUnsafe(row.taken_at),
  provider,
  state: row.state,
  revision: row.revision,
  reference: row.reference,
  acknowledged: row.acknowledged,
  reads: row.reads
})

export const makeStatusReads = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const take = (statement: string, provider: ProviderName, terms: ReadTerms, last: unknown) => {
    const { idle, lease, review_indeterminate_after, review_submitted_after } = terms
    const durations = [lease, idle, review_submitted_after, review_indeterminate_after]
    const parameters = [provider, ...durations.map((duration) => Duration.toMillis(duration)), last]
    return Effect.map(orUnavailable(sql.unsafe<TakenRow>(statement, parameters)), (rows) => ({
      items: rows.filter((row): row is ReadRow & DueCount => row.id !== null)
        .map((row) => toDueRead(provider, row)),
      due: rows[0]!.due_count,
      walked: rows[0]!.walked ?? 0,
      marks: rows[0]!.mark === undefined ? [] : [["", rows[0]!.mark] as const]
    }))
  }

  const searchFromMarks = yield* makeLowWaterMarks
  const takeReads = (provider: ProviderName, limit: number, terms: ReadTerms) =>
    untilServed(limit, (left) =>
      searchFromMarks(
        provider,
        (marks: Marks | null) => take(takeReadsStatement(left), provider, terms, marks?.get("") ?? "-infinity")
      ))

  const takeHeld = (provider: ProviderName, limit: number, terms: ReadTerms) =>
    untilServed(limit, (left) => take(takeHeldStatement(left), provider, terms, Duration.toMillis(terms.rescue_after)))

  const postpone = Effect.fn("SubmissionQueue.postpone")(
    (
      id: OperationId,
      revision: number,
      { due_in, reference, review = false, send_before }: Omit<Recording, "evidence"> & { readonly review?: boolean }
    ) =>
      Effect.asVoid(orUnavailable(
        sql.unsafe(postponeStatement, [id, revision, Duration.toMillis(due_in), reference, toDate(send_before), review])
      ))
  )

  const report = Effect.fn("SubmissionQueue.report")((id: OperationId, reference: ProviderReference | null) =>
    Effect.asVoid(orUnavailable(sql.unsafe(reportStatement, [id, reference])))
  )

  return {
    takeReads,
    takeHeld,
    postpone,
    report
  }
})

/** One more read, up to the maximum of the column: a full count must not fail the other operations of the batch. */
const countRead = "o.reads + (due.active AND o.reads < 2147483647)::integer"

/** The read begins now. A postponed operation is not read. */
const readingSince = "CASE WHEN due.active THEN now() END"

/** Ends a statement whose `due` are the due operations, and whose `taken` returns the updated ones. */
const selectTaken = (more = "") => `
  SELECT due_count${more}, ${present} AS taken_at, ${submissionColumns}, o.state, o.reference, o.acknowledged, o.reads
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
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = ${countRead}, reading_since = ${readingSince},
      ${reviewAfter(`CASE o.state WHEN 'submitted' THEN ${millis("$4")} ELSE ${millis("$5")} END`)}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )${
  selectTaken(`, ${walkedOf("operations_to_read")} - (SELECT walked FROM began) AS walked,
    least((SELECT due_at FROM first), now() - ${millis(String(margin))})::text AS mark`)
}`

/**
 * Examines held operations. The claim holder of the earlier timeline may send until its claim is stale, counted from the
 * first examination on this timeline. An older `send_before` does not count: a failover may have restored it together with
 * the hold, and lost a release and a claim that followed.
 */
const takeHeldStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("read")} AS active
    FROM operations o
    WHERE o.state = 'accepted' AND o.provider = $1 AND ${claimableTimeline} < (SELECT ledger_timeline())
      AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = ${countRead}, reading_since = ${readingSince}, examined_timeline = ledger_timeline(),
      send_before = CASE WHEN ${isExamined} THEN o.send_before ELSE now() + ${millis("$6")} END,
      under_review = o.under_review OR o.reviewed_at IS NULL
        OR o.reviewed_at <= now() - least(${millis("$4")}, ${millis("$5")})
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )${selectTaken()}`

const postponeStatement = `
  UPDATE operations o
  SET due_at = ${nextRead(millis("$3"))}, reading_since = NULL, reference = coalesce(o.reference, $4),
    under_review = o.under_review OR ($6::boolean AND coalesce(o.reviewed_at < o.updated_at, true))
  WHERE o.id = $1 AND o.revision = $2 AND CASE o.state
    WHEN 'accepted' THEN o.send_before = $5::timestamptz AND ${isExamined}
    ELSE o.state IN ('submitted', 'indeterminate') AND ($5 IS NULL OR o.send_before = $5)
  END`

/** Only accepted operations are held. Of one in another state, both columns of the hold stay as they are. */
const reportStatement = `
  UPDATE operations o
  SET due_at = now(), reference = coalesce(o.reference, $2),
    under_review = o.under_review OR o.state = 'accepted' OR coalesce(o.reference <> $2, false),
    hold_placed = (o.state = 'accepted'), examined_timeline = NULL
  WHERE o.id = $1 AND o.state IN ('accepted', 'submitted', 'indeterminate')`
