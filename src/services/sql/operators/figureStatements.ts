/**
 * The statements of `LedgerFigures`. Their cost depends on the numbers of providers, of moves not folded yet, and of clients with accepted
 * operations (`maxDueCount` at most). It does not depend on the number of operations.
 */
import { maxDueCount } from "../../../domain/operators/FiguresForm.ts"
import {
  claimableTimeline,
  clientQueue,
  epochOf,
  indexedTimeline,
  needsDecision,
  openQuestion
} from "../queueFragments.ts"
import { seenInterval } from "./OperatorRow.ts"
import { failedSections, inFailedSection, isLateReversal } from "./searchSources.ts"

/** Rows as an array of objects; empty without rows. */
const listed = (columns: Readonly<Record<string, string>>, from: string) => {
  const members = Object.entries(columns).map(([name, value]) => `'${name}', ${value}`).join(", ")
  return `(SELECT coalesce(json_agg(json_build_object(${members})), '[]') FROM ${from})`
}

/**
 * The operations, counted by provider, state, timeline and review: all that moved there, less all that moved away. A server in recovery
 * fails here, because it has no present timeline.
 */
const counts = `
  here AS MATERIALIZED (
    SELECT ledger_timeline() AS timeline
  ), moves AS MATERIALIZED (
    SELECT provider, from_state, from_timeline, from_review, to_state, to_timeline, to_review, sum(count) AS count
    FROM operation_counts GROUP BY 1, 2, 3, 4, 5, 6, 7
  ), counts AS MATERIALIZED (
    SELECT m.provider, state, m.timeline, review, sum(count)::float8 AS count,
      state = 'accepted' AND m.timeline <> here.timeline AS held,
      state IN ('succeeded', 'failed', 'cancelled') AS settled
    FROM here, (
      SELECT provider, to_state AS state, to_timeline AS timeline, to_review AS review, count FROM moves
      UNION ALL
      SELECT provider, from_state, from_timeline, from_review, -count FROM moves WHERE from_state IS NOT NULL
    ) m GROUP BY 1, 2, 3, 4, here.timeline HAVING sum(count) <> 0
  )`

/**
 * Operations that workers put off: nothing allows their next action, such as after a revocation, or no worker has the key of their payload.
 * The indexes `operations_put_off` and `operations_unread` have them.
 */
const stops = {
  unauthorized: { states: "o.state = 'accepted'", reason: "AND NOT o.lacks_key" },
  keyless: { states: "o.state = 'accepted'", reason: "AND o.lacks_key" },
  unread: { states: "o.state IN ('submitted', 'indeterminate')", reason: "" }
}
type Stop = keyof typeof stops

/** A text for each of them. */
const ofStops = (text: (name: Stop) => string) => (Object.keys(stops) as ReadonlyArray<Stop>).map(text)

/** Those of a provider, oldest first, for each provider that may have one. */
const stopped = (name: Stop, limit: number) => `
      (SELECT DISTINCT provider FROM counts o WHERE ${stops[name].states}) p CROSS JOIN LATERAL (
        SELECT o.updated_at, o.state, o.under_review, ${indexedTimeline} AS timeline FROM operations o
        WHERE o.waiting AND ${stops[name].states} ${
  stops[name].reason
} AND o.provider = p.provider ORDER BY o.updated_at LIMIT ${limit}
      ) o`

const oldestStopped = (name: Stop) => `SELECT p.provider, '${name}', o.updated_at FROM ${stopped(name, 1)}`

/**
 * The oldest of the operations that are counted together, from the indexes `operations_unsettled` and `operations_under_review`, and those
 * of `stops`.
 */
const oldest = `
  oldest AS (
    SELECT p.provider, CASE WHEN p.held THEN 'held' ELSE p.state END AS condition, min(o.updated_at) AS since
    FROM (SELECT DISTINCT provider, state, timeline, held FROM counts WHERE NOT settled) p CROSS JOIN LATERAL (
      SELECT o.updated_at FROM operations o
      WHERE o.completed_at IS NULL AND o.state = p.state AND o.provider = p.provider AND ${indexedTimeline} = p.timeline
      ORDER BY o.updated_at LIMIT 1
    ) o GROUP BY 1, 2
    UNION ALL
    ${ofStops(oldestStopped).join("\n    UNION ALL\n    ")}
    UNION ALL
    SELECT p.provider, 'under_review', o.updated_at
    FROM (SELECT DISTINCT provider FROM counts WHERE review) p CROSS JOIN LATERAL (
      SELECT o.updated_at FROM operations o
      WHERE o.under_review AND o.provider = p.provider ORDER BY o.updated_at LIMIT 1
    ) o
  )`

const nextSection = (of: string, after: string) => `
      (SELECT ${clientQueue} FROM operations o
      WHERE o.state = 'accepted' AND o.provider = ${of}.provider AND ${claimableTimeline} = ${of}.timeline${after}
      ORDER BY ${clientQueue} LIMIT 1)`

const dueInSection = `
      SELECT o.due_at FROM operations o
      WHERE o.state = 'accepted' AND o.provider = l.provider AND ${claimableTimeline} = l.timeline AND ${clientQueue} = l.section
        AND o.due_at <= now() ORDER BY o.due_at`

/**
 * Due accepted operations. The index has them by section, so that a section of waiting operations that are not due costs one look. With
 * more than `maxDueCount` sections, `since` is that of the first ones.
 */
const dueAccepted = `
  queues AS MATERIALIZED (
    SELECT DISTINCT provider, p.timeline, CASE WHEN p.held THEN 'examine' ELSE 'claim' END AS work
    FROM counts p, here WHERE state = 'accepted' AND p.timeline <= here.timeline
  ), sections AS (
    SELECT provider, timeline, 1 AS n, ${nextSection("queues", "")} AS section FROM queues
    UNION ALL
    SELECT provider, timeline, n + 1, ${nextSection("l", ` AND ${clientQueue} > l.section`)}
    FROM sections l WHERE section IS NOT NULL AND n < ${maxDueCount}
  ), due_accepted AS (
    SELECT q.provider, q.work, least(sum(counted.count), ${maxDueCount}) AS count, min(first.due_at) AS since
    FROM queues q CROSS JOIN LATERAL (
      SELECT min(d.due_at) AS due_at FROM sections l CROSS JOIN LATERAL (${dueInSection} LIMIT 1) d
      WHERE l.provider = q.provider AND l.timeline = q.timeline
    ) first CROSS JOIN LATERAL (
      SELECT count(*) AS count FROM (
        SELECT FROM sections l CROSS JOIN LATERAL (${dueInSection} LIMIT ${maxDueCount}) d
        WHERE l.provider = q.provider AND l.timeline = q.timeline LIMIT ${maxDueCount}
      ) d
    ) counted WHERE first.due_at IS NOT NULL GROUP BY 1, 2
  )`

/** Due work of a provider that an index has in the order of its due time. */
const dueOf = (work: string, states: string, rows = `operations o WHERE o.state IN (${states})`) => `
    SELECT p.provider, '${work}', count(*), min(d.due_at)
    FROM (SELECT DISTINCT provider FROM counts WHERE state IN (${states})) p CROSS JOIN LATERAL (
      SELECT o.due_at FROM ${rows} AND o.provider = p.provider AND o.due_at <= now()
      ORDER BY o.due_at LIMIT ${maxDueCount}
    ) d GROUP BY 1`

const returnedClaims = `operations o
      WHERE o.state = 'submitting' AND o.return_reason IS NOT NULL AND o.timeline = (SELECT timeline FROM here)`

/** Stale claims have no index by provider, because the rescuer takes those of all. Returned claims of an earlier timeline are stale. */
const dueRescues = `
    SELECT provider, 'rescue', least(count(*), ${maxDueCount}), min(due_at) FROM (
      (SELECT provider, due_at FROM operations o
      WHERE o.state = 'submitting' AND o.return_reason IS NULL AND o.due_at <= now() ORDER BY o.due_at LIMIT ${maxDueCount})
      UNION ALL
      (SELECT provider, least(due_at, now()) FROM operations o
      WHERE o.state = 'submitting' AND o.return_reason IS NOT NULL AND o.timeline < (SELECT timeline FROM here)
      ORDER BY o.timeline, o.provider, o.due_at LIMIT ${maxDueCount})
    ) o GROUP BY 1`

const due = `
  due AS (
    SELECT provider, work, count, since FROM due_accepted
    UNION ALL ${dueOf("take_over", "'submitting'", returnedClaims)}
    UNION ALL ${dueOf("read_status", "'submitted', 'indeterminate'")}
    UNION ALL ${dueOf("read_success", "'succeeded'", "reversal_reads o WHERE true")}
    UNION ALL ${dueRescues}
  )`

const count = (condition: string) =>
  listed(
    { provider: "provider", count: "count" },
    `(SELECT provider, sum(count) AS count FROM counts WHERE ${condition} GROUP BY 1 ORDER BY 1) c`
  )

const countStopped = (name: Stop) =>
  listed(
    { provider: "provider", count: "count" },
    `(SELECT p.provider, count(*) AS count FROM ${stopped(name, maxDueCount)} GROUP BY 1 ORDER BY 1) c`
  )

/** One row: see `LedgerFiguresNow`. Times are milliseconds since the epoch. */
export const nowStatement = `
  WITH RECURSIVE ${counts}, ${oldest}, ${dueAccepted}, ${due}
  SELECT ${epochOf("now()")} AS at,
    ${
  listed(
    { provider: "provider", state: "state", count: "count" },
    "(SELECT provider, state, sum(count) AS count FROM counts GROUP BY 1, 2 ORDER BY 1, 2) c"
  )
} AS operations,
    ${count("held")} AS held,
    ${ofStops((name) => `${countStopped(name)} AS ${name}`).join(",\n    ")},
    ${count("review")} AS under_review,
    ${
  listed(
    { provider: "provider", state: "state", count: "count" },
    `(SELECT provider, state, count(*) AS count FROM (
        SELECT r.provider, o.state
        FROM operation_reversals r JOIN operations o ON o.id = r.operation_id AND o.client_id = r.client_id
        WHERE ${isLateReversal} ORDER BY r.recorded_at DESC LIMIT ${maxDueCount}
      ) r GROUP BY 1, 2 ORDER BY 1, 2) c`
  )
} AS reversed,
    ${
  listed(
    { provider: "provider", count: "count" },
    `(SELECT provider, count(*) AS count FROM (
        SELECT o.provider FROM approvals a JOIN operations o ON o.id = a.operation_id AND o.client_id = a.client_id
        WHERE a.state = 'pending' ORDER BY a.expires_at LIMIT ${maxDueCount}
      ) a GROUP BY 1 ORDER BY 1) c`
  )
} AS approval,
    ${
  listed({ provider: "provider", condition: "condition", since: epochOf("since") }, "(TABLE oldest ORDER BY 1, 2) o")
} AS oldest,
    ${
  listed(
    { provider: "provider", work: "work", count: "count", since: epochOf("since") },
    "(TABLE due ORDER BY 1, 2) d"
  )
} AS due,
    ${
  listed(
    {
      process_id: "process_id",
      worker_id: "worker_id",
      version: "version",
      started_at: epochOf("started_at"),
      seen_at: epochOf("seen_at"),
      pauses: "pauses",
      clock_skew_ms: "clock_skew_ms"
    },
    "(SELECT * FROM worker_reports WHERE seen_at > now() - interval '1 day' ORDER BY seen_at DESC, process_id) w"
  )
} AS workers`

const stoppedRows = (name: Stop) => `
    SELECT p.provider, '${name}' AS condition, o.* FROM ${stopped(name, maxDueCount)}, here
    WHERE o.state <> 'accepted' OR o.timeline = here.timeline`

/** The first operations of a provider in an order of `updated_at`, of which the fitting ones are sought. */
const sinceOf = (where: string, fits: string) =>
  `(SELECT min(updated_at) FROM (
      SELECT o.updated_at, o.state, o.waiting, o.under_review, ${indexedTimeline} AS timeline FROM operations o
      WHERE o.provider = s.provider AND ${where} ORDER BY o.updated_at LIMIT ${maxDueCount}
    ) o WHERE NOT waiting AND ${fits})`

/** The claims of a standing `submitting`. */
const claims = `CASE WHEN s.condition = 'submitting' THEN (
      SELECT json_build_object('count', count(*) FILTER (WHERE claimed), 'lost', count(*) FILTER (WHERE lost),
        'first_end', ${epochOf("min(send_before) FILTER (WHERE claimed)")},
        'last_end', ${epochOf("max(send_before) FILTER (WHERE claimed)")}, 'next_at', ${epochOf("min(due_at)")})
      FROM (
        SELECT o.due_at, o.send_before, o.return_reason IS NULL AND o.send_before > now() AS claimed,
          o.return_reason IS NULL AND o.send_before <= now() AS lost
        FROM operations o
        WHERE o.provider = s.provider AND o.completed_at IS NULL AND o.state = 'submitting' AND ${indexedTimeline} = 0
        ORDER BY o.updated_at LIMIT ${maxDueCount}
      ) o
    ) END`

/** One row for each standing of `FiguresByCondition`. Of the questions it has one among those of the first hundred under review. */
export const standingStatement = `
  WITH RECURSIVE ${counts}, ${oldest}, stopped AS MATERIALIZED (${ofStops(stoppedRows).join("\n    UNION ALL ")}
  ), undecided AS MATERIALIZED (
    SELECT o.provider, o.updated_at FROM (
      SELECT operation_id, client_id FROM approvals WHERE state = 'pending' ORDER BY expires_at LIMIT ${maxDueCount}
    ) a CROSS JOIN LATERAL (
      SELECT o.provider, o.updated_at, ${needsDecision} AND NOT o.hold_outlasts_approval AS only_waits FROM operations o
      WHERE o.id = a.operation_id AND o.client_id = a.client_id LIMIT 1
    ) o WHERE o.only_waits
  ), standing AS (
    SELECT provider, condition, sum(count) AS count FROM (
      SELECT provider, CASE WHEN held THEN 'held' WHEN review THEN 'under_review' ELSE state END AS condition, count
      FROM counts WHERE NOT settled
      UNION ALL
      SELECT provider, condition, 1 FROM stopped
      UNION ALL
      SELECT provider, CASE WHEN under_review THEN 'under_review' ELSE state END, -1 FROM stopped
      UNION ALL
      SELECT provider, 'approval', 1 FROM undecided
      UNION ALL
      SELECT provider, 'held', -1 FROM undecided
    ) s GROUP BY 1, 2 HAVING sum(count) > 0
  )
  SELECT s.provider, s.condition, s.count::float8, ${
  epochOf(`CASE
    WHEN s.condition IN (${ofStops((name) => `'${name}'`).join(", ")})
      THEN (SELECT min(updated_at) FROM stopped d WHERE d.provider = s.provider AND d.condition = s.condition)
    WHEN s.condition = 'approval' THEN (SELECT min(updated_at) FROM undecided d WHERE d.provider = s.provider)
    WHEN s.condition = 'held' THEN nullif(
      (SELECT since FROM oldest d WHERE d.provider = s.provider AND d.condition = 'held'),
      (SELECT min(updated_at) FROM undecided d WHERE d.provider = s.provider))
    WHEN s.condition = 'under_review'
      THEN ${sinceOf("o.under_review", "(state <> 'accepted' OR timeline = (SELECT timeline FROM here))")}
    ELSE ${
    sinceOf(
      `o.completed_at IS NULL AND o.state = s.condition AND ${indexedTimeline}
        = CASE WHEN s.condition = 'accepted' THEN (SELECT timeline FROM here) ELSE 0 END`,
      "NOT under_review"
    )
  } END`)
} AS since, q.question, q.answer, ${claims} AS claims
  FROM standing s LEFT JOIN LATERAL (
    SELECT question, answer FROM (
      SELECT o.updated_at, o.last_read ->> 'answer' AS answer, ${openQuestion} AS question FROM operations o
      WHERE s.condition = 'under_review' AND o.under_review AND o.provider = s.provider ORDER BY o.updated_at LIMIT 100
    ) o WHERE question IS NOT NULL ORDER BY updated_at LIMIT 1
  ) q ON true
  ORDER BY 1, 2`

/** One row for each code of `failed` of `FiguresByCondition`. */
export const failedStatement = `
  WITH RECURSIVE ${failedSections}
  SELECT l.provider, l.code, count(*)::float8 AS count, ${epochOf("min(f.updated_at)")} AS since
  FROM failures l CROSS JOIN LATERAL (
    SELECT o.updated_at FROM operations o WHERE ${inFailedSection} ORDER BY o.updated_at DESC LIMIT ${maxDueCount}
  ) f GROUP BY 1, 2 ORDER BY 1, 2`

/**
 * The moves of the last `$1` hours by interval (`$2`: `minute` or `hour`), oldest first. `at` is null for all earlier ones. A fold
 * keeps the minutes of three hours, and the hours of seven days. The first row has the begin of the first interval.
 */
export const flowStatement = `
  WITH span AS MATERIALIZED (
    SELECT date_trunc($2, now() - $1::integer * interval '1 hour', 'UTC') AS start
    WHERE (SELECT ledger_timeline()) IS NOT NULL
  )
  SELECT ${epochOf("start")} AS start, ${epochOf("at")} AS at, provider, from_state AS "from", to_state AS "to", count
  FROM span LEFT JOIN LATERAL (
    SELECT CASE WHEN c.at >= start THEN date_trunc($2, c.at, 'UTC') END AS at, provider, from_state, to_state,
      sum(count)::float8 AS count
    FROM operation_counts c WHERE from_state IS DISTINCT FROM to_state
    GROUP BY 1, provider, from_state, to_state
  ) c ON true
  ORDER BY at NULLS FIRST, provider`

/** `$1` to `$5`: process, worker id, version, pauses and skew of the clock. Forgets processes that reported nothing for a day, and
 * earlier processes with the same worker id that stopped without a farewell. */
export const reportWorkerStatement = `
  WITH forgotten AS (
    DELETE FROM worker_reports WHERE process_id <> $1::uuid
      AND seen_at < now() - CASE WHEN worker_id = $2 THEN ${seenInterval} ELSE interval '1 day' END
  )
  INSERT INTO worker_reports (process_id, worker_id, version, pauses, clock_skew_ms)
  VALUES ($1::uuid, $2, $3, $4::jsonb, $5::float8)
  ON CONFLICT (process_id) DO UPDATE
  SET seen_at = clock_timestamp(), pauses = excluded.pauses, clock_skew_ms = excluded.clock_skew_ms`

/** Removes the report of a process that ends. */
export const forgetWorkerStatement = "DELETE FROM worker_reports WHERE process_id = $1::uuid"
