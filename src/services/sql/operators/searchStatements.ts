/**
 * The room `services/sql/operators`: statements of `services/operators`. No client of the public API reaches one of them. Read this file first:
 * the statement behind a page of a list of operators. It looks at a bounded number of rows, in the order of an index.
 */
import * as Duration from "effect/Duration"
import type { OperationListQuery } from "../../../domain/operators/OperatorView.ts"
import { approvalStatusColumns } from "../ledger/SqlApprovals.ts"
import { awaitsApproval, millis, needsDecision } from "../queueFragments.ts"
import { operatorColumns } from "./OperatorRow.ts"
import {
  type AddParameter,
  isFailed,
  isHeld,
  isLateReversal,
  isWaiting,
  type SearchFilter,
  type Source,
  sourceOf
} from "./searchSources.ts"

/** The sort values of a row, and of the last row that the statement looked at where it did not look further. */
export interface Sorted {
  readonly sort: ReadonlyArray<string>
  readonly frontier: ReadonlyArray<string> | null
}

interface ListStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
}

const queueConditions = {
  indeterminate: "o.state = 'indeterminate'",
  under_review: "o.under_review",
  held: `${isHeld} AND (o.hold_outlasts_approval OR NOT ${needsDecision})`,
  waiting: isWaiting,
  failed: isFailed,
  approval: awaitsApproval,
  reversed:
    `EXISTS (SELECT FROM operation_reversals r WHERE r.operation_id = o.id AND r.client_id = o.client_id AND ${isLateReversal})`
} as const

type SearchQuery = SearchFilter & Pick<OperationListQuery, "order">

/** Members of a filter that name a column. */
const equal = [
  "client_id",
  "idempotency_key",
  "provider",
  "reference",
  "resource_owner",
  "failure_code",
  "claimed_by"
] as const

/** The conditions of a filter, all of them. The index answers some already. */
const conditionsOf = (query: SearchQuery, add: AddParameter): ReadonlyArray<string> => {
  const { payee_indexes, queue, states } = query
  return [
    ...states === undefined || states.length === 0 ? [] : [`o.state = ANY (${add(states)}::text[])`],
    ...queue === undefined ? [] : [queueConditions[queue]],
    ...payee_indexes === undefined ? [] : [`encode(o.payee_index, 'hex') = ANY (${add(payee_indexes)}::text[])`],
    ...equal.flatMap((name) => query[name] === undefined ? [] : [`o.${name} = ${add(query[name])}`])
  ]
}

/** Which rows of the source to look at: after the position, and no more than `rows` of all sections together. */
interface Look {
  readonly after: ReadonlyArray<string> | null
  /** A literal, because PostgreSQL plans a generic statement for a tenth of the index. */
  readonly rows: number
  readonly limit: number
}

/** The source of a list; null if its filter contradicts itself. */
export const findSource = (query: SearchQuery): Source | null => sourceOf(query, () => "")

/** One row at least: the operations of the page in their order, and one more if there is one. */
export const listStatement = (query: SearchQuery, { after, limit, rows }: Look): ListStatement => {
  const parameters: Array<unknown> = []
  const add: AddParameter = (value) => `$${parameters.push(value)}`
  const source = sourceOf(query, add)!
  const [direction, further, upTo] = query.order === "oldest"
    ? ["ASC", ">", "<="] as const
    : ["DESC", "<", ">="] as const
  const sortNames = source.sort.map((_, n) => `s${n}`)
  const tuple = (names: ReadonlyArray<string>) => `(${names.join(", ")})`
  const ordered = (names: ReadonlyArray<string>) => names.map((name) => `${name} ${direction}`).join(", ")
  const texts = (of: string) => `ARRAY[${source.sort.map(({ text }, n) => text(`${of}.s${n}`)).join(", ")}]`
  const columns = source.sort.map(({ column }) => column)
  const age = query.unchanged_for === undefined
    ? ""
    : ` AND o.updated_at <= now() - ${millis(add(Duration.toMillis(query.unchanged_for)))}`
  const start = after === null
    ? ""
    : ` AND ${tuple(columns)} ${further} ${tuple(source.sort.map(({ value }, n) => value(add(after[n]))))}`
  const conditions = conditionsOf(query, add)
  const text = `
  WITH RECURSIVE ${source.sections}, sections AS MATERIALIZED (
    SELECT *, greatest(1, ${rows} / count(*) OVER ()) AS share FROM sections_found
  ), looked AS MATERIALIZED (
    SELECT r.*, l.share FROM sections l CROSS JOIN LATERAL (
      SELECT r.*, row_number() OVER (ORDER BY ${ordered(sortNames)}) AS nth FROM (
        SELECT * FROM (
          SELECT o.id, o.client_id, ${columns.map((column, n) => `${column} AS s${n}`).join(", ")},
            ${conditions.length === 0 ? "true" : conditions.join(" AND ")} AS matches
          FROM operations o WHERE ${source.within}${age}${start}
          ORDER BY ${ordered(columns)} LIMIT ${rows}
        ) r LIMIT l.share
      ) r
    ) r
  ), frontier AS MATERIALIZED (
    SELECT ${sortNames.join(", ")} FROM looked WHERE nth = share ORDER BY ${ordered(sortNames)} LIMIT 1
  ), page AS MATERIALIZED (
    SELECT * FROM looked
    WHERE matches AND (NOT EXISTS (SELECT FROM frontier)
      OR ${tuple(sortNames)} ${upTo} (SELECT ${sortNames.join(", ")} FROM frontier))
    ORDER BY ${ordered(sortNames)} LIMIT ${add(limit + 1)}::int
  )
  SELECT (SELECT ${texts("f")} FROM frontier f) AS frontier, ${texts("p")} AS sort, o.*
  FROM (SELECT) AS always
  LEFT JOIN page p ON true
  LEFT JOIN LATERAL (
    SELECT ${operatorColumns} FROM operations o WHERE o.id = p.id AND o.client_id = p.client_id LIMIT 1
  ) o ON true
  ORDER BY ${ordered(sortNames.map((name) => `p.${name}`))}`
  return { text, parameters }
}

/** Most matches of one kind that a search looks at. */
const mostMatches = 1000

/** The operations with the id `$1`, the idempotency key `$2` or the reference `$3`, of which each may be null. */
export const findStatement = `
  WITH found AS MATERIALIZED (
    (SELECT o.id, o.client_id, o.updated_at FROM operations o WHERE o.id = $1::uuid)
    UNION
    (SELECT o.id, o.client_id, o.updated_at FROM operations o WHERE o.idempotency_key = $2 LIMIT ${mostMatches})
    UNION
    (SELECT o.id, o.client_id, o.updated_at FROM operations o WHERE o.reference = $3
    ORDER BY o.updated_at DESC, o.id DESC LIMIT ${mostMatches})
    ORDER BY updated_at DESC, id DESC LIMIT 20
  )
  SELECT o.* FROM found f CROSS JOIN LATERAL (
    SELECT ${operatorColumns} FROM operations o WHERE o.id = f.id AND o.client_id = f.client_id LIMIT 1
  ) o
  ORDER BY f.updated_at DESC, f.id DESC`

/** The operation `$1`, of any owner. */
export const detailStatement = `
  SELECT ${operatorColumns}, r.recorded_at AS reversed_at, r.evidence AS reversal_evidence, ${approvalStatusColumns} FROM operations o
  LEFT JOIN approvals a ON a.operation_id = o.id AND a.client_id = o.client_id
  LEFT JOIN operation_reversals r ON r.operation_id = o.id AND r.client_id = o.client_id
  WHERE o.id = $1`

/** Most entries of a history that operators see: the latest. */
const mostEntries = 200

/** The latest entries of the operation `$1` up to its revision `$2`, as the row was read. */
export const latestHistoryStatement = `
  SELECT revision, from_state AS "from", to_state AS "to", at, evidence FROM operation_history
  WHERE operation_id = $1 AND revision <= $2 ORDER BY revision DESC LIMIT ${mostEntries}`

const instantText = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const check = (condition: string) =>
  `(SELECT json_build_object('at', ${
    instantText("at")
  }, 'result', result, 'released', released, 'held', held, 'missing', missing)
    FROM witness_checks WHERE ${condition} ORDER BY at DESC LIMIT 1)`

/** One row: see `HeldOperations`. */
export const heldStatement = `
  WITH groups AS MATERIALIZED (
    SELECT o.provider,
      CASE WHEN o.acknowledged THEN 'acknowledged' WHEN ${needsDecision} AND NOT o.hold_outlasts_approval THEN 'approval' WHEN o.hold_placed THEN 'hold_placed' ELSE 'timeline' END AS reason,
      count(*)::float8 AS count,
      (count(*) FILTER (WHERE o.examined_timeline = ledger_timeline()
        OR o.unsent_in = (SELECT history FROM ledger_home) AND o.timeline = ledger_timeline()))::float8 AS examined,
      max(o.send_before) FILTER (WHERE o.examined_timeline = ledger_timeline()) AS releasable_from
    FROM operations o WHERE ${isHeld} GROUP BY 1, 2
  )
  SELECT coalesce((SELECT sum(count) FROM groups), 0)::float8 AS held,
    (SELECT coalesce(json_agg(json_build_object('provider', provider, 'reason', reason, 'count', count, 'examined', examined,
      'releasable_from', ${instantText("releasable_from")}) ORDER BY provider, reason), '[]') FROM groups) AS groups,
    h.epoch IS NOT NULL AS has_witness, coalesce(h.epoch_life = ledger_life(), false) AS is_compared,
    ${check("true")} AS witness_check, ${check("held > 0")} AS last_hold
  FROM ledger_home h`
