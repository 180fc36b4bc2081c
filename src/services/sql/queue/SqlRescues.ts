/**
 * Rescues in PostgreSQL: what moves claims to `indeterminate` without their holders, and puts aged operations under review.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { OperationId } from "../../../domain/Operation.ts"
import type { ReviewTerms } from "../../../domain/Submission.ts"
import { rescueEvidence, restartEvidence } from "../../rules/ledgerRules.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { isHome, isUnsent, millis, toIndeterminate } from "../queueFragments.ts"
import { makeLowWaterMarks, walkedOf } from "./lowWaterMarks.ts"

interface RescueRow {
  readonly ids: ReadonlyArray<OperationId>
  readonly walked: number
  readonly mark: string
}

export const makeRescues = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const searchFromMarks = yield* makeLowWaterMarks
  const rescue = Effect.fn("Rescues.rescue")(function*(limit: number) {
    const { ids } = yield* searchFromMarks("", (marks) =>
      Effect.map(
        orUnavailable(
          sql.unsafe<RescueRow>(rescueStatement(limit), [JSON.stringify(rescueEvidence), marks?.get("") ?? "-infinity"])
        ),
        ([row]) => ({ ids: row!.ids, walked: row!.walked, marks: [["", row!.mark]] as const })
      ))
    return ids
  })

  const rescueClaimsOf = Effect.fn("Rescues.rescueClaimsOf")((worker: string) =>
    Effect.map(
      orUnavailable(sql.unsafe(rescueClaimsOfStatement, [JSON.stringify(restartEvidence), worker])),
      (rows) => rows.length
    )
  )

  const reviewAged = Effect.fn("Rescues.reviewAged")((limit: number, terms: ReviewTerms) =>
    Effect.map(
      orUnavailable(
        sql.unsafe(reviewAgedStatement(limit), [
          Duration.toMillis(terms.accepted),
          Duration.toMillis(terms.submitted),
          Duration.toMillis(terms.indeterminate)
        ])
      ),
      (rows) => rows.length
    )
  )

  const expireApprovals = Effect.fn("Rescues.expireApprovals")((limit: number) =>
    Effect.map(orUnavailable(sql.unsafe(expireApprovalsStatement(limit))), (rows) => rows.length)
  )

  return { rescue, rescueClaimsOf, reviewAged, expireApprovals }
})

/**
 * The row was claimed on another timeline, or in another place from which `prepare` has not moved the ledger yet. The change may have lost a
 * return and a take-over.
 */
const isOfOtherLedger =
  `(o.timeline <> (SELECT ledger_timeline()) OR NOT EXISTS (SELECT FROM ledger_home h WHERE ${isHome}))`

/**
 * A stale claim: the time for which the rescuer waited. After a rollback that kept the timeline, it waits for a take-over that
 * the rollback may have lost (`afterRollback`). So "not found" at the provider is final only after that time.
 */
const untilStale = "CASE WHEN o.send_before IS NOT NULL THEN greatest(o.send_before, o.due_at) END"

/**
 * One row. The search for stale claims begins at the mark `$2`. The next mark is the first stale claim, locked ones included, or
 * now: a claim is due seconds after its commit, so none can come to lie below that. See `lowWaterMarks`.
 */
const rescueStatement = (limit: number) => `
  WITH began AS MATERIALIZED (
    SELECT ${walkedOf("operations_to_rescue")} AS walked
  ), first AS MATERIALIZED (
    SELECT due_at FROM operations
    WHERE state = 'submitting' AND return_reason IS NULL AND due_at >= $2::text::timestamptz AND due_at <= now()
      AND (SELECT walked FROM began) IS NOT NULL
    ORDER BY due_at LIMIT 1
  ), stale AS MATERIALIZED (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND return_reason IS NULL AND due_at >= (SELECT due_at FROM first) AND due_at <= now()
    ORDER BY due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  ), lost AS MATERIALIZED (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND return_reason IS NOT NULL AND timeline < (SELECT ledger_timeline())
    ORDER BY timeline, provider, due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  ), moved AS (
    UPDATE operations o
    SET ${toIndeterminate("$1", isOfOtherLedger, untilStale)}
    FROM (SELECT * FROM stale UNION ALL SELECT * FROM lost LIMIT ${limit}) due
    WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.id
  )
  SELECT ids, ${walkedOf("operations_to_rescue")} - (SELECT walked FROM began) AS walked,
    coalesce((SELECT due_at FROM first), now())::text AS mark
  FROM (SELECT coalesce(array_agg(id), '{}') AS ids FROM moved) m`

/** A locked claim is skipped: its outcome is being recorded, or another rescue moves it. */
const rescueClaimsOfStatement = `
  WITH due AS MATERIALIZED (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND return_reason IS NULL AND claimed_by = $2
    FOR UPDATE SKIP LOCKED
  )
  UPDATE operations o
  SET ${toIndeterminate("$1", isOfOtherLedger)}
  FROM due
  WHERE o.id = due.id AND o.client_id = due.client_id
  RETURNING 1`

/** It locks the operation first, as every decision does. The triggers cancel it. */
const expireApprovalsStatement = (limit: number) => `
  WITH late AS MATERIALIZED (
    SELECT o.id, o.client_id FROM approvals a JOIN operations o ON o.id = a.operation_id AND o.client_id = a.client_id
    WHERE a.state = 'pending' AND a.expires_at <= now() AND ${isUnsent}
    ORDER BY a.expires_at LIMIT ${limit}
    FOR NO KEY UPDATE OF o SKIP LOCKED
  )
  UPDATE approvals a SET state = 'expired' FROM late
  WHERE a.operation_id = late.id AND a.client_id = late.client_id AND a.state = 'pending'
  RETURNING 1`

/**
 * Returned claims have the age of `accepted`: their operations wait in the same way. `greatest` implies the condition on
 * `updated_at`, which is in the index `operations_unsettled`: so the younger rows of a state are passed without a look at each.
 */
const reviewAgedStatement = (limit: number) => {
  const aged = (kind: string, age: string) => `
    (SELECT id, client_id FROM operations
    WHERE completed_at IS NULL AND ${kind} AND NOT under_review AND updated_at <= now() - ${millis(age)}
      AND greatest(updated_at, reviewed_at) <= now() - ${millis(age)}
    LIMIT ${limit})`
  const kinds = [
    aged("state = 'accepted'", "$1"),
    aged("state = 'submitting' AND return_reason IS NOT NULL", "$1"),
    aged("state = 'submitted'", "$2"),
    aged("state = 'indeterminate'", "$3")
  ]
  return `
  UPDATE operations o SET under_review = true
  FROM (${kinds.join(" UNION ALL ")} LIMIT ${limit}) old
  WHERE o.id = old.id AND o.client_id = old.client_id AND o.due_at IS NOT NULL
  RETURNING 1`
}
