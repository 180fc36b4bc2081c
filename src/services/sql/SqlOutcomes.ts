/**
 * Outcomes in PostgreSQL: what workers, reconcilers and the rescuer record of claimed and held operations.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { type OperationId, type Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { Recording } from "../../domain/Submission.ts"
import { rescueEvidence } from "../internal/rescueEvidence.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { findOperation } from "./findOperation.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { millis } from "./queueFragments.ts"
import { toDate } from "./SubmissionRow.ts"

/** Fails: the operation is not as the caller knew it, or does not exist. */
export const failStale = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, id: OperationId, expected: number) {
  const { revision: actual } = yield* findOperation(sql, id)
  return yield* new StaleOperation({ id, expected, actual })
})

export const makeOutcomes = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const record = Effect.fn("SubmissionQueue.record")(
    function*(id: OperationId, revision: number, outcome: Outcome, recording: Recording) {
      const failure = outcome.state === "failed" ? outcome.failure : null
      const [row] = yield* orUnavailable(
        sql.unsafe<OperationRow>(recordStatement, [
          id,
          revision,
          outcome.state,
          failure?.code ?? null,
          failure?.message ?? null,
          JSON.stringify(recording.evidence),
          recording.reference,
          Duration.toMillis(recording.due_in),
          toDate(recording.send_before)
        ])
      )
      return row === undefined ? yield* failStale(sql, id, revision) : fromRow(row)
    }
  )

  const recordHeld = Effect.fn("SubmissionQueue.recordHeld")(
    function*(id: OperationId, revision: number, outcome: Outcome, recording: Recording) {
      const submitting = { ...recording, reference: null }
      return yield* orUnavailable(
        sql.withTransaction(Effect.andThen(
          record(id, revision, { state: "submitting" }, submitting),
          record(id, revision + 1, outcome, recording)
        ))
      )
    }
  )

  const rescue = Effect.fn("SubmissionQueue.rescue")(function*(limit: number) {
    const rows = yield* orUnavailable(
      sql.unsafe<{ readonly id: OperationId }>(rescueStatement(limit), [JSON.stringify(rescueEvidence)])
    )
    return rows.map(({ id }) => id)
  })

  return { record, recordHeld, rescue }
})

const recordStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6,
    reference = coalesce(o.reference, $7), due_at = now() + ${millis("$8")}
  WHERE o.id = $1 AND o.revision = $2
    AND ($9::timestamptz IS NULL OR o.send_before = $9)
    AND coalesce(o.reference = $7, true)
  RETURNING ${publicColumns}`

const rescueStatement = (limit: number) => `
  WITH stale AS (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND due_at <= now()
    ORDER BY due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  )
  UPDATE operations o
  SET state = 'indeterminate', revision = o.revision + 1, due_at = now(), evidence = $1
  FROM stale WHERE o.id = stale.id AND o.client_id = stale.client_id
  RETURNING o.id`
