/**
 * Returned claims in PostgreSQL: how a worker gives up a claim, and how another one takes it over.
 *
 * At most one process has the right to send. A holder gives it up in the statement that sets `return_reason`, by
 * compare-and-set on `send_before`. A take-over locks the row, and sets a later `send_before`. So all that an earlier holder
 * still asks, records or repeats is stale.
 *
 * A failover may lose a take-over. The return may then be there, or the earlier holder repeats it. The row has the timeline
 * of its claim, which no statement changes, so no worker takes it over on another timeline: the rescuer moves it to
 * `indeterminate`.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../../domain/Grant.ts"
import type { Claim, ClaimTerms, ReturnTerms } from "../../../domain/Submission.ts"
import { PayloadCipher } from "../../PayloadCipher.ts"
import { returnReason } from "../../queue/Claims.ts"
import type { HistoryReports } from "../../queue/Maintenance.ts"
import { untilServed } from "../../rules/claimRounds.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import {
  batchColumn,
  countBatch,
  dueWithPayloads,
  here,
  idle,
  millis,
  plannedLimit,
  present,
  reviewAfter,
  standing,
  submissionColumns
} from "../queueFragments.ts"
import { failStale } from "./SqlOutcomes.ts"
import { type ClaimRow, makeToClaim, toDate } from "./SubmissionRow.ts"

/** The number of due claims, postponed ones included, in each row. The statement returns at least one row. */
type TakenOverRow = { readonly due_count: number } & (ClaimRow | { readonly id: null })

export const makeReturnedClaims = Effect.fnUntraced(function*({ claimed, column }: HistoryReports) {
  const sql = yield* SqlClient.SqlClient
  const cipher = yield* PayloadCipher
  const toClaim = yield* makeToClaim

  const returnClaim = Effect.fn("Claims.returnClaim")(
    function*(
      { operation: { id, send_before }, revision }: Pick<Claim, "operation" | "revision">,
      { delay, reason, review_after }: ReturnTerms
    ) {
      const rows = yield* orUnavailable(
        sql.unsafe(returnStatement, [
          id,
          revision,
          toDate(send_before),
          returnReason(reason),
          Duration.toMillis(delay),
          Duration.toMillis(review_after)
        ])
      )
      if (rows.length === 0) yield* failStale(sql, id, revision)
    }
  )

  const claimReturned = Effect.fn("Claims.claimReturned")(
    (provider: ProviderName, limit: number, terms: ClaimTerms) =>
      untilServed(limit, (left) =>
        Effect.map(
          claimed(orUnavailable(
            sql.unsafe<TakenOverRow>(claimReturnedStatement(plannedLimit(left), terms, column), [
              provider,
              cipher.keyIds,
              Duration.toMillis(terms.send_within),
              Duration.toMillis(terms.rescue_after),
              Duration.toMillis(terms.idle),
              Duration.toMillis(terms.review_after),
              terms.worker,
              cipher.plaintextBefore,
              left,
              terms.provider_account ?? null,
              ...terms.recorded_by === undefined ? [] : [terms.recorded_by]
            ])
          )),
          (rows) => ({
            items: rows.filter((row): row is ClaimRow & TakenOverRow => row.id !== null)
              .map(toClaim),
            more: rows[0]!.due_count >= left
          })
        ))
  )

  return { returnClaim, claimReturned }
})

const returnStatement = `
  UPDATE operations o
  SET return_reason = $4, due_at = now() + ${idle("$5")}, ${reviewAfter(millis("$6"))}
  WHERE o.id = $1 AND o.revision = $2 AND o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL
  RETURNING 1`

/**
 * `send_before` is later than every earlier one of the row, also after the clock was set back. It has milliseconds. The
 * rescuer waits from the same instant. `planned` is no less than the limit `$9`: see `plannedLimit`.
 */
const claimReturnedStatement = (planned: number, { recorded_by }: ClaimTerms, column: string) => `
  WITH ${here(recorded_by !== undefined)}, picked AS MATERIALIZED (
    SELECT o.id, o.client_id, o.created_at, ${standing("send")} AS is_allowed
    FROM (
      SELECT o.* FROM operations o
      WHERE o.state = 'submitting' AND o.return_reason IS NOT NULL AND o.timeline = (SELECT timeline FROM here)
        AND o.provider = $1 AND o.due_at <= now()
      ORDER BY o.due_at LIMIT ${planned}
      FOR UPDATE OF o SKIP LOCKED
    ) o LIMIT $9
  ), ${dueWithPayloads("$2", "$8")}, taken AS (
    UPDATE operations o
    SET return_reason = NULL, claimed_by = $7, provider_account = $10,
      send_before = greatest(now() + ${millis("$3")}, o.send_before + interval '1 millisecond'),
      due_at = greatest(now(), o.send_before + interval '1 millisecond' - ${millis("$3")}) + ${millis("$4")}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready
    RETURNING ${submissionColumns}, o.created_at, o.request_digest, due.payload, due.key_id
  ), put_off AS (
    UPDATE operations o
    SET due_at = now() + ${idle("$5")}, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )${recorded_by === undefined ? "" : countBatch("$11", "$1", "taken")}
  SELECT due_count${column}, ${present} AS claimed_at,
    ${submissionColumns}, o.created_at, o.request_digest, o.payload, o.key_id${
  recorded_by === undefined ? "" : batchColumn
}
  FROM (SELECT count(*)::integer AS due_count FROM due) l
  LEFT JOIN taken o ON true`
