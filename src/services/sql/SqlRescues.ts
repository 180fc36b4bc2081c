/**
 * Rescues in PostgreSQL: what moves claims to `indeterminate` without their holders.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { OperationId } from "../../domain/Operation.ts"
import { rescueEvidence, restartEvidence } from "../internal/rescueEvidence.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { toIndeterminate } from "./queueFragments.ts"

export const makeRescues = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const rescue = Effect.fn("SubmissionQueue.rescue")(function*(limit: number) {
    const rows = yield* orUnavailable(
      sql.unsafe<{ readonly id: OperationId }>(rescueStatement(limit), [JSON.stringify(rescueEvidence)])
    )
    return rows.map(({ id }) => id)
  })

  const rescueClaimsOf = Effect.fn("SubmissionQueue.rescueClaimsOf")((worker: string) =>
    Effect.map(
      orUnavailable(sql.unsafe(rescueClaimsOfStatement, [JSON.stringify(restartEvidence), worker])),
      (rows) => rows.length
    )
  )

  return { rescue, rescueClaimsOf }
})

/** The row was claimed on another timeline. The change of the timeline may have lost a return and a take-over. */
const isOfOtherTimeline = "o.timeline <> (SELECT ledger_timeline())"

/**
 * A stale claim: the time for which the rescuer waited. After a rollback that kept the timeline, it waits for a take-over that
 * the rollback may have lost (`afterRollback`). So "not found" at the provider is final only after that time.
 */
const untilStale = "CASE WHEN o.send_before IS NOT NULL THEN greatest(o.send_before, o.due_at) END"

const rescueStatement = (limit: number) => `
  WITH stale AS MATERIALIZED (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND return_reason IS NULL AND due_at <= now()
    ORDER BY due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  ), lost AS MATERIALIZED (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND return_reason IS NOT NULL AND timeline < (SELECT ledger_timeline())
    ORDER BY timeline, provider, due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  )
  UPDATE operations o
  SET ${toIndeterminate("$1", isOfOtherTimeline, untilStale)}
  FROM (SELECT * FROM stale UNION ALL SELECT * FROM lost LIMIT ${limit}) due
  WHERE o.id = due.id AND o.client_id = due.client_id
  RETURNING o.id`

/** A locked claim is skipped: its outcome is being recorded, or another rescue moves it. */
const rescueClaimsOfStatement = `
  WITH due AS MATERIALIZED (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND return_reason IS NULL AND claimed_by = $2
    FOR UPDATE SKIP LOCKED
  )
  UPDATE operations o
  SET ${toIndeterminate("$1", isOfOtherTimeline)}
  FROM due
  WHERE o.id = due.id AND o.client_id = due.client_id
  RETURNING 1`
