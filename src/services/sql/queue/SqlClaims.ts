/**
 * Claims in PostgreSQL: which operations a worker may send, and whether it still may; how it gives up a claim, and how another one takes it
 * over.
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
import type { HistoryReports } from "../../queue/LedgerHistory.ts"
import { makeClaimRounds, untilServed } from "../../rules/claimRounds.ts"
import { orUnavailable, StoreUnavailable } from "../../StoreUnavailable.ts"
import {
  batchColumn,
  claimableTimeline,
  clientQueue,
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
import { makeLowWaterMarks, margin, type Marks, walkedOf } from "./lowWaterMarks.ts"
import { failStale } from "./SqlOutcomes.ts"
import { type ClaimRow, makeToClaim, toDate } from "./SubmissionRow.ts"

/** Columns about the client queues, in each row. A claim returns at least one row. */
interface QueuesRow {
  readonly more: boolean
  readonly next: string | null
  /** See `lowWaterMarks`. */
  readonly walked: number
  readonly marks?: ReadonlyArray<readonly [queue: string, mark: string]> | null
}

type ClaimedRow = QueuesRow & (ClaimRow | { readonly id: null })

/** The number of due claims, postponed ones included, in each row. The statement returns at least one row. */
type TakenOverRow = { readonly due_count: number } & (ClaimRow | { readonly id: null })

export const makeClaims = Effect.fnUntraced(function*({ claimed, column }: HistoryReports) {
  const sql = yield* SqlClient.SqlClient
  const cipher = yield* PayloadCipher
  const toClaim = yield* makeToClaim

  const claimOnce = (provider: ProviderName, limit: number, terms: ClaimTerms, after: string, marks: Marks | null) =>
    claimed(orUnavailable(
      sql.unsafe<ClaimedRow>(
        claimStatement(plannedLimit(limit), marks === null ? allQueues : queuesFromMarks, terms, column),
        [
          provider,
          cipher.keyIds,
          Duration.toMillis(terms.send_within),
          Duration.toMillis(terms.rescue_after),
          Duration.toMillis(terms.idle),
          Duration.toMillis(terms.review_after),
          after,
          cipher.plaintextBefore,
          terms.worker,
          limit,
          terms.provider_account ?? null,
          terms.sent_as ?? null,
          ...marks === null ? [] : [[...marks.keys()], [...marks.values()]],
          ...terms.recorded_by === undefined ? [] : [terms.recorded_by]
        ]
      )
    ))

  const searchFromMarks = yield* makeLowWaterMarks
  const claimRounds = makeClaimRounds()
  const claim = Effect.fn("Claims.claim")((provider: ProviderName, limit: number, terms: ClaimTerms) =>
    claimRounds(
      provider,
      limit,
      (left, after) =>
        searchFromMarks(provider, (marks) =>
          Effect.map(claimOnce(provider, left, terms, after, marks), (rows) => ({
            items: rows.filter((row): row is ClaimRow & QueuesRow => row.id !== null)
              .map(toClaim),
            more: rows[0]!.more,
            next: rows[0]!.next,
            walked: rows[0]!.walked,
            marks: rows[0]!.marks ?? []
          })))
    )
  )

  const mayStillSend = Effect.fn("Claims.mayStillSend")(
    function*({ operation: { id, send_before }, revision }: Pick<Claim, "operation" | "revision">) {
      const [row] = yield* orUnavailable(
        sql.unsafe<{ readonly may_send: boolean | null }>(mayStillSendStatement, [id, revision, toDate(send_before)])
      )
      return row!.may_send ?? (yield* new StoreUnavailable({ cause: new Error("the server is in recovery") }))
    }
  )

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
              terms.sent_as ?? null,
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

  return { claim, claimReturned, returnClaim, mayStillSend }
})

/** The timeline is in a subquery, so that the index gives the order. It comes with the first count of the walk. */
const claimable = `o.state = 'accepted' AND o.provider = $1 AND ${claimableTimeline} = (SELECT timeline FROM began)`

/**
 * Until when the operations of a queue are due. Only waiting operations have a time of their own, and share the queue ''. An
 * accepted one has the time of its acceptance: after the clock of the database was set back, that may lie ahead.
 */
const dueBy = (queue: string) => `(CASE WHEN ${queue} = '' THEN now() ELSE 'infinity' END)`

const queueAfter = (after: string) => `
      (SELECT ${clientQueue} FROM operations o WHERE ${claimable} AND ${clientQueue} > ${after} ORDER BY ${clientQueue} LIMIT 1)`

/** The part of a claim statement that finds client queues to visit: `visits`, and its marks. */
interface QueueSearch {
  readonly ctes: string
  /** Columns of `visits` beside `n` and `queue`, and the condition on an operation in the visited queue `q` that uses them. */
  readonly columns: string
  readonly begin: string
  /** A column of `QueuesRow`. */
  readonly marks: string
  /** The first parameter after those of the search. */
  readonly next: string
}

/** Skips from one client queue to the next in the index. */
const allQueues: QueueSearch = {
  ctes: `first AS MATERIALIZED (
    SELECT CASE
      WHEN EXISTS (SELECT FROM operations o WHERE ${claimable} AND ${clientQueue} = '' AND o.due_at <= now()) THEN ''
      ELSE ${queueAfter("''")}
    END AS queue
  ), start AS MATERIALIZED (
    SELECT coalesce(${queueAfter("$7")}, queue) AS start FROM first
  ), visits AS (
    SELECT 1 AS n, start AS queue, start FROM start
    UNION ALL
    SELECT v.n + 1, after.queue, v.start
    FROM visits v CROSS JOIN LATERAL (SELECT coalesce(${queueAfter("v.queue")}, queue) FROM first) after (queue)
    WHERE v.n <= $10::integer AND after.queue <> v.start
  )`,
  columns: "",
  begin: "",
  marks: "",
  next: "$13"
}

/**
 * Looks into the queue of every client, each from its mark on (`$13` queues, `$14` marks). A skip to the next queue would walk all dead
 * entries of those between. The next mark of a queue is its first operation that is due, or `margin` ago. A mark is
 * reported once it has moved by a second, so that many queues cost little.
 */
const queuesFromMarks: QueueSearch = {
  ctes: `probed AS MATERIALIZED (
    SELECT q.queue, q.mark, first.due_at
    FROM (
      SELECT c.queue, coalesce(m.mark::timestamptz, '-infinity') AS mark
      FROM (SELECT '' COLLATE "C" AS queue UNION ALL SELECT id FROM clients) c
      LEFT JOIN unnest($13::text[], $14::text[]) m (queue, mark) ON m.queue = c.queue
    ) q LEFT JOIN LATERAL (
      SELECT o.due_at FROM operations o
      WHERE ${claimable} AND ${clientQueue} = q.queue AND o.due_at >= q.mark AND o.due_at <= ${dueBy("q.queue")}
      ORDER BY o.due_at LIMIT 1
    ) first ON true
  ), visits AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY queue COLLATE "C" <= $7, queue COLLATE "C") AS n, queue, due_at
    FROM probed WHERE due_at IS NOT NULL
    ORDER BY n LIMIT $10 + 1
  )`,
  columns: ", due_at",
  begin: " AND o.due_at >= q.due_at",
  marks: `, (
      SELECT json_agg(json_build_array(queue, moved)) FROM probed p CROSS JOIN LATERAL (
        SELECT least(p.due_at, now() - ${millis(String(margin))}) AS moved
      ) m WHERE moved >= p.mark + interval '1 second'
    ) AS marks`,
  next: "$15"
}

/**
 * A claim visits the client queues in turn. It begins after the queue `$7`, visits at most `$10` queues, and gives each
 * an equal share. So a long queue delays only its own client. The claim skips from one queue to the next in the index. Its
 * cost depends on the limit, and neither on the lengths of the queues nor on the number of clients. `next` is the queue after
 * which the next claim begins, null when there was no queue. `more`: a queue may hold more than its share, or the claim did not
 * visit all queues.
 *
 * While dead entries are in the way, the claim finds its queues from marks (`queuesFromMarks`). Its cost then depends on the number
 * of clients.
 *
 * `planned` is no less than `$10`: see `plannedLimit`.
 */
const claimStatement = (
  planned: number,
  { begin, columns, ctes, marks, next }: QueueSearch,
  { recorded_by }: ClaimTerms,
  column: string
) => `
  WITH RECURSIVE ${here(recorded_by !== undefined)}, began AS MATERIALIZED (
    SELECT timeline, ${walkedOf("operations_to_claim")} AS walked FROM here
  ), ${ctes}, queues AS MATERIALIZED (
    SELECT n, queue${columns}, $10 / count + (n <= $10 % count)::integer AS share
    FROM (SELECT *, count(*) OVER () FROM visits WHERE n <= $10::integer AND queue IS NOT NULL) v
  ), picked AS MATERIALIZED (
    SELECT o.id, o.client_id, o.created_at, q.n, ${standing("send")} AS is_allowed
    FROM queues q CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT o.* FROM operations o
        WHERE ${claimable} AND ${clientQueue} = q.queue AND o.due_at <= ${dueBy("q.queue")}${begin}
        ORDER BY o.due_at LIMIT ${planned}
        FOR UPDATE OF o SKIP LOCKED
      ) o LIMIT q.share
    ) o
  ), ${dueWithPayloads("$2", "$8")}, claimed AS (
    UPDATE operations o
    SET state = 'submitting', revision = o.revision + 1, send_before = now() + ${millis("$3")},
      due_at = now() + ${millis("$4")}, claimed_by = $9,
      provider_account = $11, sent_as = $12
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready
    RETURNING ${submissionColumns}, o.created_at, o.request_digest, due.payload, due.key_id
  ), put_off AS (
    UPDATE operations o
    SET due_at = now() + ${idle("$5")}, waiting = true, lacks_key = due.is_allowed, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )${recorded_by === undefined ? "" : countBatch(next, "$1", "claimed")}
  SELECT round_state.*, coalesce(${
  walkedOf("operations_to_claim")
} - (SELECT walked FROM began), 0) AS walked${marks}${column},
    ${present} AS claimed_at,
    ${submissionColumns}, o.created_at, o.request_digest, o.payload, o.key_id${
  recorded_by === undefined ? "" : batchColumn
}
  FROM (
    SELECT is_part OR EXISTS (
        SELECT FROM queues q WHERE q.share = (SELECT count(*) FROM due WHERE due.n = q.n)
      ) AS more,
      (SELECT queue FROM queues WHERE n = CASE WHEN is_part THEN $10 ELSE 1 END) AS next
    FROM (SELECT EXISTS (SELECT FROM visits WHERE n > $10) AS is_part) v
  ) round_state
  LEFT JOIN claimed o ON true`

/** Null on a server in recovery, which may lack a revocation. */
const mayStillSendStatement = `
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN EXISTS (
    SELECT FROM operations o
    WHERE o.id = $1 AND o.revision = $2 AND o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL
      AND ${standing("send")}
  ) END AS may_send`

/**
 * What the provider confirmed is never returned, also after a claim by hand. An older version of the gateway, which does not know `sent_as`,
 * may take the claim over: so the return forgets it.
 */
const returnStatement = `
  UPDATE operations o
  SET return_reason = $4, sent_as = NULL, due_at = now() + ${idle("$5")}, lacks_key = false, ${
  reviewAfter(millis("$6"))
}
  WHERE o.id = $1 AND o.revision = $2 AND o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL
    AND NOT o.acknowledged
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
    SET return_reason = NULL, claimed_by = $7, provider_account = $10, sent_as = $11,
      send_before = greatest(now() + ${millis("$3")}, o.send_before + interval '1 millisecond'),
      due_at = greatest(now(), o.send_before + interval '1 millisecond' - ${millis("$3")}) + ${millis("$4")}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready
    RETURNING ${submissionColumns}, o.created_at, o.request_digest, due.payload, due.key_id
  ), put_off AS (
    UPDATE operations o
    SET due_at = now() + ${idle("$5")}, lacks_key = due.is_allowed, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )${recorded_by === undefined ? "" : countBatch("$12", "$1", "taken")}
  SELECT due_count${column}, ${present} AS claimed_at,
    ${submissionColumns}, o.created_at, o.request_digest, o.payload, o.key_id${
  recorded_by === undefined ? "" : batchColumn
}
  FROM (SELECT count(*)::integer AS due_count FROM due) l
  LEFT JOIN taken o ON true`
