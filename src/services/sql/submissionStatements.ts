/**
 * What the submission queue asks of PostgreSQL. Each statement is one step for all who look at the queue.
 */
import { publicColumns } from "./OperationRow.ts"

const millis = (parameter: string) => `${parameter}::float8 * interval '1 millisecond'`

/**
 * Client, owner and subject of an operation `o` still let it be driven, be it through a newer grant. To be sent it needs
 * one that allows all that the accepting one did when it accepted.
 */
const standing = (purpose: "send" | "read") => `
    EXISTS (SELECT 1 FROM clients c WHERE c.id = o.client_id AND c.active)
    AND EXISTS (SELECT 1 FROM provider_connections p WHERE p.id = o.provider_connection_id AND p.connected)
    AND EXISTS (
      SELECT 1 FROM grants g
      WHERE g.client_id = o.client_id AND g.resource_owner = o.resource_owner AND g.subject = o.subject
        AND g.provider_connection_id = o.provider_connection_id AND g.revoked_at IS NULL AND g.expires_at > now()${
  purpose === "read" ? "" : " AND g.scopes @> o.scopes"
}
    )`

/** Whoever withdrew long ago is looked at less often: a tenth of the time since, five minutes at most. */
const idle = (parameter: string) =>
  `greatest(${millis(parameter)}, least(interval '5 minutes', (now() - o.updated_at) / 10))`

/** Puts an operation under review once it has been in its state for so long, counted from the last review. */
const reviewAfter = (age: string) =>
  `under_review = o.under_review OR greatest(o.updated_at, o.reviewed_at) <= now() - ${age}`

/** One more read, up to the most that the column holds: a count that is full must not fail the others of its batch. */
const countRead = "o.reads + (due.active AND o.reads < 2147483647)::integer"

const providerColumns = "o.id, o.type, o.resource_owner, o.provider_connection_id, o.send_before, o.revision"

/** Whatever was accepted before the ledger moved is older than the first timeline of its new home. */
export const moveHomeStatement = `
  WITH home AS (
    UPDATE ledger_home h SET system_identifier = s.system_identifier, database = d.oid
    FROM pg_control_system() s, pg_database d
    WHERE d.datname = current_database()
      AND (h.system_identifier, h.database) IS DISTINCT FROM (s.system_identifier, d.oid)
    RETURNING 1
  ), held AS (
    UPDATE operations SET timeline = 0 WHERE state = 'accepted' AND EXISTS (SELECT 1 FROM home)
  )
  SELECT 1 FROM home`

/** The lane of an operation `o` in the index `operations_to_claim`: that of its client, or '' while it waits. */
const lane = `(CASE WHEN o.waiting THEN '' ELSE o.client_id END COLLATE "C")`

/** In a subquery, so that the index gives the order. */
const claimable = "o.state = 'accepted' AND o.provider = $1 AND o.timeline = (SELECT timeline FROM here)"

const laneAfter = (after: string) => `
      (SELECT ${lane} FROM operations o WHERE ${claimable} AND ${lane} > ${after} ORDER BY ${lane} LIMIT 1)`

/**
 * Claims go round the lanes of the clients: they begin after the lane `$7`, visit as many as they may claim operations,
 * and give each an equal share, so that a long queue delays its own client alone. A claim skips from one lane to the
 * next in the index, hence its cost depends on the limit and not on the lengths of the queues or the number of clients.
 * `next` is the lane after which the next claim begins, null when no lane was found. `more` tells that a lane may hold
 * more than its share, or that lanes were not visited.
 *
 * Limits are literals, because PostgreSQL would plan a generic statement for a tenth of the queue. `here` is empty where
 * nothing may be claimed, on a database that could forget or in a cluster that nobody prepared.
 */
export const claimStatement = (limit: number) => `
  WITH RECURSIVE here AS MATERIALIZED (
    SELECT ledger_timeline() AS timeline FROM ledger_home h
    JOIN pg_control_system() s USING (system_identifier)
    JOIN pg_database d ON d.oid = h.database AND d.datname = current_database()
    WHERE current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'
  ), first AS MATERIALIZED (
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
    WHERE v.n <= ${limit} AND after.lane <> v.start
  ), lanes AS MATERIALIZED (
    SELECT n, lane, ${limit} / count + (n <= ${limit} % count)::integer AS share
    FROM (SELECT *, count(*) OVER () FROM visits WHERE n <= ${limit} AND lane IS NOT NULL) v
  ), due AS MATERIALIZED (
    SELECT o.id, o.client_id, l.n, ${standing("send")}
      AND NOT EXISTS (
        SELECT 1 FROM operation_payloads y
        WHERE y.operation_id = o.id AND y.client_id = o.client_id
          AND CASE WHEN y.key_id IS NULL THEN o.created_at >= to_timestamp($8::float8 / 1000)
            ELSE y.key_id <> ALL ($2::text[]) END
      ) AS ready
    FROM lanes l CROSS JOIN LATERAL (
      SELECT * FROM (
        SELECT o.* FROM operations o
        WHERE ${claimable} AND ${lane} = l.lane AND o.due_at <= now()
        ORDER BY o.due_at LIMIT ${limit}
        FOR UPDATE OF o SKIP LOCKED
      ) o LIMIT l.share
    ) o
  ), claimed AS (
    UPDATE operations o
    SET state = 'submitting', revision = o.revision + 1, send_before = now() + ${millis("$3")},
      due_at = now() + ${millis("$4")}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready
    RETURNING ${providerColumns}, o.client_id, o.created_at, o.request_digest
  ), put_off AS (
    UPDATE operations o
    SET due_at = now() + ${idle("$5")}, waiting = true, ${reviewAfter(millis("$6"))}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND NOT due.ready
  )
  SELECT looked.*, ${providerColumns}, o.created_at, o.request_digest, y.payload, y.key_id
  FROM (
    SELECT is_part OR EXISTS (
        SELECT FROM lanes l WHERE l.share = (SELECT count(*) FROM due WHERE due.n = l.n)
      ) AS more,
      (SELECT lane FROM lanes WHERE n = CASE WHEN is_part THEN ${limit} ELSE 1 END) AS next
    FROM (SELECT EXISTS (SELECT FROM visits WHERE n > ${limit}) AS is_part) v
  ) looked
  LEFT JOIN claimed o ON true
  LEFT JOIN operation_payloads y ON y.operation_id = o.id AND y.client_id = o.client_id`

/** Null on a server in recovery, which may not know of a revocation yet. */
export const mayStillSendStatement = `
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN EXISTS (
    SELECT FROM operations o
    WHERE o.id = $1 AND o.revision = $2 AND o.state = 'submitting' AND o.send_before = $3 AND ${standing("send")}
  ) END AS may_send`

export const recordStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6,
    reference = coalesce(o.reference, $7), due_at = now() + ${millis("$8")}
  WHERE o.id = $1 AND o.revision = $2
    AND ($9::timestamptz IS NULL OR o.send_before = $9)
    AND coalesce(o.reference = $7, true)
  RETURNING ${publicColumns}`

export const rescueStatement = (limit: number) => `
  WITH stale AS (
    SELECT id, client_id FROM operations
    WHERE state = 'submitting' AND due_at <= now()
    ORDER BY due_at LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  )
  UPDATE operations o
  SET state = 'indeterminate', revision = o.revision + 1, due_at = now(),
    evidence = '{"by":"rescuer","reason":"the worker that claimed the operation did not record what became of it"}'
  FROM stale WHERE o.id = stale.id AND o.client_id = stale.client_id
  RETURNING o.id`

export const takeReadsStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("read")} AS active
    FROM operations o
    WHERE o.state IN ('submitted', 'indeterminate') AND o.provider = $1 AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = ${countRead},
      ${reviewAfter(`CASE o.state WHEN 'submitted' THEN ${millis("$4")} ELSE ${millis("$5")} END`)}
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )
  SELECT looked, ${providerColumns}, o.state, o.reference, o.reads
  FROM (SELECT count(*)::integer AS looked FROM due) l
  LEFT JOIN taken o ON o.active`

/**
 * Whoever claimed it on the earlier timeline may send it until that claim is stale, from now at the latest. The negative
 * timeline tells whether that was said on this one: what was said before, a failover may have brought back together with
 * the hold, and forgotten the release and the claim that followed.
 */
export const takeHeldStatement = (limit: number) => `
  WITH due AS MATERIALIZED (
    SELECT o.id, o.client_id, ${standing("read")} AS active
    FROM operations o
    WHERE o.state = 'accepted' AND o.provider = $1 AND o.timeline < (SELECT ledger_timeline()) AND o.due_at <= now()
    ORDER BY o.due_at LIMIT ${limit}
    FOR UPDATE OF o SKIP LOCKED
  ), taken AS (
    UPDATE operations o
    SET due_at = now() + CASE WHEN due.active THEN ${millis("$2")} ELSE ${idle("$3")} END,
      reads = ${countRead}, timeline = -(SELECT ledger_timeline()),
      send_before = coalesce(
        CASE o.timeline WHEN -(SELECT ledger_timeline()) THEN o.send_before END, now() + ${millis("$6")}
      ),
      under_review = o.under_review OR o.reviewed_at IS NULL
        OR o.reviewed_at <= now() - least(${millis("$4")}, ${millis("$5")})
    FROM due WHERE o.id = due.id AND o.client_id = due.client_id
    RETURNING o.*, due.active
  )
  SELECT looked, ${providerColumns}, o.state, o.reference, o.reads
  FROM (SELECT count(*)::integer AS looked FROM due) l
  LEFT JOIN taken o ON o.active`

export const postponeStatement = `
  UPDATE operations o
  SET due_at = now() + ${millis("$3")}, reference = coalesce(o.reference, $4),
    under_review = o.under_review OR ($6::boolean AND coalesce(o.reviewed_at < o.updated_at, true))
  WHERE o.id = $1 AND o.revision = $2 AND CASE o.state
    WHEN 'accepted' THEN o.send_before = $5::timestamptz AND o.timeline = -ledger_timeline()
    ELSE o.state IN ('submitted', 'indeterminate') AND ($5 IS NULL OR o.send_before = $5)
  END`

export const reportStatement = `
  UPDATE operations o
  SET due_at = now(), reference = coalesce(o.reference, $2),
    under_review = o.under_review OR o.state = 'accepted' OR coalesce(o.reference <> $2, false),
    timeline = CASE o.state WHEN 'accepted' THEN 0 ELSE o.timeline END
  WHERE o.id = $1 AND o.state IN ('accepted', 'submitted', 'indeterminate')`

export const reviewAgedStatement = (limit: number) => {
  const aged = (state: string, age: string) => `
    (SELECT id, client_id FROM operations
    WHERE state = '${state}' AND NOT under_review AND greatest(updated_at, reviewed_at) <= now() - ${millis(age)}
    LIMIT ${limit})`
  return `
  UPDATE operations o SET under_review = true
  FROM (${aged("accepted", "$1")} UNION ALL ${aged("submitted", "$2")} UNION ALL ${aged("indeterminate", "$3")}
    LIMIT ${limit}) old
  WHERE o.id = old.id AND o.client_id = old.client_id AND o.due_at IS NOT NULL
  RETURNING 1`
}

const released = `timeline = ledger_timeline(), due_at = now(), waiting = false, send_before = NULL,
    under_review = false, reviewed_at = now()`

export const releaseAllStatement = `
  UPDATE operations SET ${released}
  WHERE state = 'accepted' AND timeline < ledger_timeline() AND reference IS NULL
  RETURNING 1`

/**
 * Somebody looked at it since the failover, and whoever had claimed it before can send it no more. Who read its status
 * says which look that was: it may have been let go since, and another failover forgot that.
 */
export const releaseStatement = `
  UPDATE operations o SET ${released}
  WHERE o.id = $1 AND o.state = 'accepted' AND o.timeline = -ledger_timeline() AND o.send_before <= now()
    AND o.reference IS NULL AND ($2::timestamptz IS NULL OR o.send_before = $2)
  RETURNING ${publicColumns}`

export const heldStatement = `
  SELECT ${publicColumns}, o.timeline = ledger_timeline() AS is_free, o.timeline = -ledger_timeline() AS is_examined,
    o.reference IS NOT NULL AS is_acknowledged, o.send_before
  FROM operations o WHERE o.id = $1`

export const holdAllStatement =
  "UPDATE operations SET timeline = 0, due_at = now() WHERE state = 'accepted' RETURNING 1"
