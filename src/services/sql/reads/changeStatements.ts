/**
 * The statements of the change feed. Each reads the changes, the transactions that have not finished, and the history of the
 * ledger in one snapshot.
 */
import type { ChangeQuery } from "../../../domain/ChangeFeed.ts"
import { type GrantIdentity, operationsRead } from "../../../domain/Grant.ts"
import { type ChangePosition, maxPending } from "../../rules/changeToken.ts"
import { grantOfCredential, isGrantOfCredential, standingInteger } from "../grantStanding.ts"
import { columnAt, publicColumns } from "../OperationRow.ts"
import { onPrimary, owned } from "./readStatements.ts"

/** A statement with filters looks at this many changes at most, and returns the matching ones among them. */
export const maxLookedAt = 1000

/** The facts of a row, behind the columns of its operation. A float8 holds every position exactly. */
const facts = {
  /** Of the change. Null: there is none, and the row has the other facts alone. */
  position: "o.change_position::float8",
  /** The last row that the statement looked at may not match the filters. */
  matches: "o.matches",
  /** How many changes a statement with filters looked at. */
  looked: "o.looked",
  history: "l.history",
  running: "l.running",
  upcoming: "l.upcoming",
  /** No token has a place from here on. Null: the snapshot is that of a longer transaction, and may be older than the token. */
  latest: "l.latest"
} as const

const factColumns = Object.values(facts).join(", ")

const publicWidth = Object.keys(columnAt).length
const behindFacts = publicWidth + Object.keys(facts).length

/** The position of each fact in a row. The standing is in rows of a grant; client and subject are in rows of the ledger. */
export const factAt = {
  // The cast: the entries have all keys.
  ...Object.fromEntries(Object.keys(facts).map((name, n) => [name, publicWidth + n])) as Record<
    keyof typeof facts,
    number
  >,
  standing: behindFacts,
  client_id: behindFacts,
  resource_owner: behindFacts + 1,
  subject: behindFacts + 2
}

/**
 * The ledger in the snapshot of the statement: `running` and `upcoming` are `Unfinished`. The feed may read before `ceiling`:
 * the other unfinished positions then fit into a token. The limits keep PostgreSQL from computing the facts again for each row.
 *
 * The transaction of the statement itself runs as well, if it has written: it may still be rolled back, or write more. The changes
 * of `own` are left out, as those of every other running transaction are.
 */
const ledger = `(
    SELECT ledger_history(ledger_timeline()) AS history, s.running, s.upcoming, s.own,
      coalesce(s.running[${maxPending + 1}], s.upcoming)::bigint AS ceiling,
      CASE current_setting('transaction_isolation') WHEN 'read committed' THEN s.upcoming END AS latest
    FROM (
      SELECT ARRAY(
          SELECT (x::text::bigint + h.change_offset)::float8 FROM (
            SELECT pg_snapshot_xip(pg_current_snapshot()) UNION SELECT pg_current_xact_id_if_assigned()
          ) AS t (x) WHERE x IS NOT NULL ORDER BY x
        ) AS running,
        (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + h.change_offset)::float8 AS upcoming,
        pg_current_xact_id_if_assigned()::text::bigint + h.change_offset AS own
      FROM ledger_home h LIMIT 1
    ) s LIMIT 1
  ) l`

/**
 * Not one of the statement's own changes. An expression without statistics: with `IS DISTINCT FROM`, PostgreSQL concludes from one
 * position that most operations have, as after a load, that no other exists. Then it would read the whole table.
 */
const isFinished = "coalesce(o.change_position <> l.own, true)"

/**
 * The position in the order of the whole ledger, as its index has it. Otherwise that index could serve a grant as well, and then
 * PostgreSQL could read the changes of all owners to find those of one.
 */
const ledgerPosition = "(o.change_position + 0)"

type Parameter = (value: unknown) => string

interface Selection {
  /** Which operations, as a condition on `o`. */
  readonly where: string
  /** The position as the index of the order has it. */
  readonly position: string
  readonly filter: string | null
  readonly limit: number
}

/** The order of the feed: see `changesAfter`. */
const inOrder = "ORDER BY n, o.change_position, o.id"

/**
 * The changes after the position: those of its pending places, then those behind it, up to one more than the page holds.
 *
 * Each place begins a range of positions. PostgreSQL reads the ranges one after the other, each in the order of an index, and stops
 * at the limit, however many ranges are left. It knows that the ranges come in the order of their numbers, so it sorts nothing:
 * the rows of a range stay in the order of its index. Tests hold this order, and that no plan sorts below the limit. A pending
 * position is a range, too: with `=` the order would be that of the ids, which the primary key has as well, over all operations.
 */
const changesAfter = (
  { high, pending }: ChangePosition,
  { filter, limit, position, where }: Selection,
  parameter: Parameter
): string => {
  // A literal: PostgreSQL never keeps a plan for any limit, and would plan the statement anew each time.
  const page = `LIMIT ${Math.trunc(limit) + 1}`
  const rows = filter === null ? page : `LIMIT ${maxLookedAt}`
  const places = [...pending, high]
  const after = parameter(places.map(({ position }) => position))
  const seen = parameter(places.map(({ id }) => id))
  const behind = parameter(places.length)
  const changes = `
       SELECT o.*, r.n FROM unnest(${after}::bigint[], ${seen}::uuid[]) WITH ORDINALITY AS r (after, seen, n)
       CROSS JOIN LATERAL (
         SELECT ${publicColumns}, o.client_id, o.resource_owner, o.subject, o.change_position, ${
    filter ?? "true"
  } AS matches
         FROM operations o
         WHERE ${where} AND ${isFinished} AND (${position}, o.id) > (r.after, r.seen)
           AND ${position} <= CASE r.n WHEN ${behind}::bigint THEN l.ceiling - 1 ELSE r.after END
         ORDER BY ${position}, o.id ${rows}
       ) o
       ORDER BY r.n ${rows}`
  if (filter === null) return `SELECT o.*, 0 AS looked FROM (${changes}) o`
  return `SELECT o.* FROM (
       SELECT o.*, (count(*) OVER ())::int AS looked, row_number() OVER (${inOrder}) AS number FROM (${changes}) o
     ) o
     WHERE o.matches OR o.number = o.looked ${inOrder} ${page}`
}

const parametersFrom = (parameters: Array<unknown>): Parameter => (value) => `$${parameters.push(value)}`

const filterOf = ({ states, type }: ChangeQuery, parameter: Parameter): string | null => {
  const filters = [
    ...states.length === 0 ? [] : [`o.state = ANY (${parameter([...new Set(states)])}::text[])`],
    ...type === null ? [] : [`o.type = ${parameter(type)}`]
  ]
  return filters.length === 0 ? null : `(${filters.join(" AND ")})`
}

/**
 * The changes of the operations of a grant. A row has the columns of the operation, the facts, and the standing and the owner of
 * the grant.
 */
export const changesOfGrant = (
  { client_id, grant_id, subject }: GrantIdentity,
  from: ChangePosition,
  query: ChangeQuery
) => {
  const parameters: Array<unknown> = [grant_id, client_id, subject, operationsRead]
  const parameter = parametersFrom(parameters)
  const filter = filterOf(query, parameter)
  const changes = changesAfter(
    from,
    { where: owned, position: "o.change_position", filter, limit: query.page_size },
    parameter
  )
  return {
    text: `
  SELECT ${publicColumns}, ${factColumns}, ${
      standingInteger("$4 = ANY (g.scopes)")
    } AS standing, g.resource_owner AS owner
  ${grantOfCredential}
  CROSS JOIN ${ledger}
  LEFT JOIN LATERAL (${changes}) o ON true
  WHERE ${onPrimary} AND ${isGrantOfCredential}
  ${inOrder}`,
    parameters
  }
}

/** The changes of all operations. A row has the columns of the operation, the facts, and the names of the owner. */
export const changesOfLedger = (from: ChangePosition, limit: number) => {
  const parameters: Array<unknown> = []
  const changes = changesAfter(
    from,
    { where: "true", position: ledgerPosition, filter: null, limit },
    parametersFrom(parameters)
  )
  return {
    text: `
  SELECT ${publicColumns}, ${factColumns}, o.client_id, o.resource_owner, o.subject
  FROM ${ledger}
  LEFT JOIN LATERAL (${changes}) o ON true
  WHERE ${onPrimary}
  ${inOrder}`,
    parameters
  }
}

const withLast = `LEFT JOIN LATERAL (
    SELECT o.change_position FROM operations o WHERE ${ledgerPosition} < l.ceiling AND ${isFinished}
    ORDER BY ${ledgerPosition} DESC LIMIT 1
  ) o ON true`

/** The last change of the ledger. A row has the position and the facts of the ledger. */
export const lastChange = `
  SELECT o.change_position::float8 AS position, l.history, l.running, l.upcoming
  FROM ${ledger}
  ${withLast}
  WHERE ${onPrimary}`

/** The mark of an earlier timeline, for a token of its history. */
export const markOf = `
  SELECT m.high::float8 AS high, m.pending::float8[] AS pending FROM change_marks m
  WHERE m.timeline <> ledger_timeline() AND ledger_history(m.timeline) = $1`

/** Records how far the changes have come: at most each second, and only if they have come further. */
export const recordMark = `
  INSERT INTO change_marks AS m (timeline, high, pending)
  SELECT t.timeline, n.high, n.pending
  FROM ${ledger}
  ${withLast}
  CROSS JOIN LATERAL (SELECT ledger_timeline() AS timeline) t
  CROSS JOIN LATERAL (
    SELECT coalesce(o.change_position, 0) AS high,
      ARRAY(SELECT p::bigint FROM unnest(l.running) p WHERE p < o.change_position) AS pending
  ) n
  WHERE NOT EXISTS (
    SELECT FROM change_marks k
    WHERE k.timeline = t.timeline AND ((k.high, k.pending) = (n.high, n.pending) OR k.marked_at > now() - interval '900 ms')
  )
  ON CONFLICT (timeline) DO UPDATE SET high = excluded.high, pending = excluded.pending, marked_at = now()
  WHERE m.high <= excluded.high`
