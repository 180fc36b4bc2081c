/**
 * Outcomes in PostgreSQL: what workers and reconcilers record of claimed and held operations.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { type OperationId, type Outcome, StaleOperation } from "../../domain/Operation.ts"
import type { Recording } from "../../domain/Submission.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { findOperation } from "./findOperation.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { millis, nextRead } from "./queueFragments.ts"
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

  return { record, recordHeld }
})

const recordStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6,
    reference = coalesce(o.reference, $7), due_at = ${nextRead(millis("$8"))}
  WHERE o.id = $1 AND o.revision = $2 AND o.return_reason IS NULL
    AND ($9::timestamptz IS NULL OR o.send_before = $9)
    AND coalesce(o.reference = $7, true)
  RETURNING ${publicColumns}`
