/** The held operations by provider and reason, from the index of the unsettled ones. */
import { isHeld } from "./searchSources.ts"

const instant = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const check = (condition: string) =>
  `(SELECT json_build_object('at', ${
    instant("at")
  }, 'result', result, 'released', released, 'held', held, 'missing', missing)
    FROM witness_checks WHERE ${condition} ORDER BY at DESC LIMIT 1)`

/** One row: see `HeldOperations`. */
export const heldStatement = `
  WITH groups AS MATERIALIZED (
    SELECT o.provider,
      CASE WHEN o.acknowledged THEN 'acknowledged' WHEN o.hold_placed THEN 'hold_placed' ELSE 'timeline' END AS reason,
      count(*)::float8 AS count,
      (count(*) FILTER (WHERE o.examined_timeline = ledger_timeline()))::float8 AS examined,
      max(o.send_before) FILTER (WHERE o.examined_timeline = ledger_timeline()) AS releasable_from
    FROM operations o WHERE ${isHeld} GROUP BY 1, 2
  )
  SELECT coalesce((SELECT sum(count) FROM groups), 0)::float8 AS held,
    (SELECT coalesce(json_agg(json_build_object('provider', provider, 'reason', reason, 'count', count, 'examined', examined,
      'releasable_from', ${instant("releasable_from")}) ORDER BY provider, reason), '[]') FROM groups) AS groups,
    h.epoch IS NOT NULL AS has_witness, coalesce(h.epoch_life = ledger_life(), false) AS is_compared,
    ${check("true")} AS witness_check, ${check("held > 0")} AS last_hold
  FROM ledger_home h`
