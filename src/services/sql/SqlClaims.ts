/**
 * Claims in PostgreSQL: which operations a worker may send, and whether it still may.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../domain/Grant.ts"
import type { Claim, ClaimTerms } from "../../domain/Submission.ts"
import { makeClaimInTurns } from "../internal/claimInTurns.ts"
import { PayloadCipher } from "../PayloadCipher.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"
import { type ClaimRow, makeToClaim } from "./ClaimRow.ts"
import {
  claimableTimeline,
  dueWithPayloads,
  here,
  idle,
  millis,
  plannedLimit,
  reviewAfter,
  standing,
  submissionColumns
} from "./queueFragments.ts"
import { toDate } from "./SubmissionRow.ts"

/** Columns about the lanes, in each row. A claim returns at least one row. */
interface LanesRow {
  readonly more: boolean
  readonly next: string | null
}

type ClaimedRow = LanesRow & (ClaimRow | { readonly id: null })

export const makeClaims = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const cipher = yield* PayloadCipher
  const toClaim = yield* makeToClaim

  const claimOnce = (provider: ProviderName, limit: number, terms: ClaimTerms, after: string) =>
    orUnavailable(
      sql.unsafe<ClaimedRow>(claimStatement(plannedLimit(limit)), [
        provider,
        cipher.keyIds,
        Duration.toMillis(terms.send_within),
        Duration.toMillis(terms.rescue_after),
        Duration.toMillis(terms.idle),
        Duration.toMillis(terms.review_after),
        after,
        cipher.plaintextBefore,
        terms.worker,
        limit
      ])
    )

  const claimInTurns = makeClaimInTurns()
  const claim = Effect.fn("SubmissionQueue.claim")((provider: ProviderName, limit: number, terms: ClaimTerms) =>
    claimInTurns(provider, limit, (left, after) =>
      Effect.map(claimOnce(provider, left, terms, after), (rows) => ({
        items: rows.filter((row): row is ClaimRow & LanesRow => row.id !== null)
          .map(toClaim),
        more: rows[0]!.more,
        next: rows[0]!.next
      })))
  )

  const mayStillSend = Effect.fn("SubmissionQueue.mayStillSend")(
    function*({ operation: { id, send_before }, revision }: Pick<Claim, "operation" | "revision">) {
      const [row] = yield* orUnavailable(
        sql.unsafe<{ readonly may_send: boolean | null }>(mayStillSendStatement, [id, revision, toDate(send_before)])
      )
      return row!.may_send ?? (yield* new StoreUnavailable({ cause: new Error("the server is in recovery") }))
    }
  )

  return { claim, mayStillSend }
})

/** The lane of an operation in the index `operations_to_claim`: its client, or '' while it waits. */
const lane = `(CASE WHEN o.waiting THEN '' ELSE o.client_id END COLLATE "C")`

/** The timeline is in a subquery, so that the index gives the order. */
const claimable = `o.state = 'accepted' AND o.provider = $1 AND ${claimableTimeline} = (SELECT timeline FROM here)`

const laneAfter = (after: string) => `
      (SELECT ${lane} FROM operations o WHERE ${claimable} AND ${lane} > ${after} ORDER BY ${lane} LIMIT 1)`

/**
 * Claims go round the lanes of the clients. A claim begins after the lane `$7`, visits at most `$10` lanes, and gives each
 * an equal share. So a long queue delays only its own client. The claim skips from one lane to the next in the index. Its
 * cost depends on the limit, and neither on the lengths of the queues nor on the number of clients. `next` is the lane after
 * which the next claim begins, null when there was no lane. `more`: a lane may hold more than its share, or the claim did not
 * visit all lanes.
 *
 * `planned` is no less than `$10`: see `plannedLimit`.
 */
const claimStatement = (planned: number) => `
  WITH RECURSIVE ${here}, first AS MATERIALIZED (
    SELECT CASE
      WHEN EXISTS (SELECT FROM operations o WHERE ${claimable} AND ${lane} = '' AND o.due_at <= now()) THEN ''
      ELSE ${laneAfter("''")}
    END AS lane
  ), start AS MATERIALIZED (
    SELECT coalesce(${laneAfter("$7")}, lane) AS start FROM first
  ), visits AS (
    SELECT 1 AS n, start AS lane, start FROM start
    UNION ALL
    SELECT v.n + 1, after.lane, v.start
    FROM visits v CROSS JOIN LATERAL (SELECT coalesce(${laneAfter("v.lane")}, lane) FROM first) after (lane)
    WHERE v.n <= $10::integer AND after.lane <> v.start
  ), lanes AS MATERIALIZED (
    SELECT n, lane, $10 / count + (n <= $10 % count)::integer AS share
    FROM (SELECT *, count(*) OVER () FROM visits WHERE n <= $10 AND lane IS NOT NULL) v
  ), picked AS MATERIALIZED (
    SELECT o.id, o.client_id, o.created_at, l.n, ${standing("send")} AS is_allowed
    FROM lanes l CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT o.* FROM operations o
        WHERE ${claimable} AND ${lane} = l.lane AND o.due_at <= now()
        ORDER BY o.due_at LIMIT ${planned}
        FOR UPDATE OF o SKIP LOCKED
      ) o LIMIT l.share
    ) o
  ), ${dueWithPayloads("$2", "$8")}, claimed AS (
    UPDATE operations o
    SET state = 'submitting', revision = o.revision + 1, send_before = now() + ${millis("$3")},
      due_at = now() + ${millis("$4")}, claimed_by = $9
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready
    RETURNING ${submissionColumns}, o.created_at, o.request_digest, due.payload, due.key_id
  ), put_off AS (
    UPDATE operations o
    SET due_at = now() + ${idle("$5")}, waiting = true, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )
  SELECT lanes_state.*, ${submissionColumns}, o.created_at, o.request_digest, o.payload, o.key_id
  FROM (
    SELECT is_part OR EXISTS (
        SELECT FROM lanes l WHERE l.share = (SELECT count(*) FROM due WHERE due.n = l.n)
      ) AS more,
      (SELECT lane FROM lanes WHERE n = CASE WHEN is_part THEN $10 ELSE 1 END) AS next
    FROM (SELECT EXISTS (SELECT FROM visits WHERE n > $10) AS is_part) v
  ) lanes_state
  LEFT JOIN claimed o ON true`

/** Null on a server in recovery, which may lack a revocation. */
const mayStillSendStatement = `
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN EXISTS (
    SELECT FROM operations o
    WHERE o.id = $1 AND o.revision = $2 AND o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL
      AND ${standing("send")}
  ) END AS may_send`
