/**
 * The statements that read operations. `$1` to `$3` name the grant, and `$4` is the scope that reads require.
 */
import * as DateTime from "effect/DateTime"
import { type GrantIdentity, operationsRead } from "../../domain/Grant.ts"
import { type OperationId, operationStates } from "../../domain/Operation.ts"
import { maxLookedAt, type OperationQuery } from "../../domain/OperationQuery.ts"
import { goodStanding, grantOfCredential, isGrantOfCredential, standingInteger } from "./grantStanding.ts"
import { onPrimary } from "./onPrimary.ts"
import { columnAt, publicColumns } from "./OperationRow.ts"

/** Whether the operation `o` belongs to the grant `g`. */
export const owned = "o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND o.subject = g.subject"

/** The columns of every read: an operation, if there is one, and the standing of the grant. Only some lists have `too_broad`. */
const columns = `${publicColumns}, ${standingInteger("$4 = ANY (g.scopes)")} AS standing`

/** The positions of the columns behind those of the operation. */
export const standingAt = Object.keys(columnAt).length
export const tooBroadAt = standingAt + 1

/** A server in recovery fails here, before it looks for the grant: see `onPrimary`. */
const condition = `${onPrimary} AND ${isGrantOfCredential}`

const findStatement = `
  SELECT ${columns}
  ${grantOfCredential}
  LEFT JOIN operations o ON o.id = $5 AND ${owned}
  WHERE ${condition}`

/** The statement that finds an operation by its id. */
export const findById = (grant: GrantIdentity, id: OperationId) => ({
  text: findStatement,
  parameters: [grant.grant_id, grant.client_id, grant.subject, operationsRead, id]
})

/** The grants of `$1` ids, `$2` clients and `$3` subjects that may not read now. */
export const refusedStatement = `
  SELECT w.id FROM unnest($1::uuid[], $2::text[], $3::text[]) AS w (id, client_id, subject)
  WHERE ${onPrimary} AND NOT EXISTS (
    SELECT ${grantOfCredential}
    WHERE g.id = w.id AND g.client_id = w.client_id AND g.subject = w.subject
      AND ${standingInteger("$4 = ANY (g.scopes)")} = ${goodStanding}
  )`

const newestFirst = "ORDER BY o.created_at DESC, o.id DESC"

/** The statement for a query. Its text has one parameter for each filter that is set. */
export const listStatement = (grant: GrantIdentity, query: OperationQuery) => {
  const parameters: Array<unknown> = [
    grant.grant_id,
    grant.client_id,
    grant.subject,
    operationsRead
  ]
  const parameter = (value: unknown) => `$${parameters.push(value)}`
  /** Conditions with which the scan of an index in list order can begin and end. */
  const range: Array<string> = []
  if (query.created_after !== null) {
    range.push(`o.created_at > ${parameter(DateTime.toDateUtc(query.created_after))}`)
  }
  if (query.created_before !== null) {
    range.push(`o.created_at < ${parameter(DateTime.toDateUtc(query.created_before))}`)
  }
  if (query.after !== null) {
    const { created_at, id } = query.after
    range.push(`(o.created_at, o.id) < (${parameter(DateTime.toDateUtc(created_at))}, ${parameter(id)})`)
  }
  // A literal: PostgreSQL never keeps a plan for any limit, and would plan the statement anew each time.
  const limit = `LIMIT ${Math.trunc(query.page_size) + 1}`
  const page = query.updated_after === null
    ? orderedPage(query, range, limit, parameter)
    : updatedPage(query, range, limit, parameter, parameter(DateTime.toDateUtc(query.updated_after)))
  return {
    text: `
  SELECT ${columns}${query.updated_after === null ? "" : ", o.too_broad"}
  ${grantOfCredential}
  LEFT JOIN LATERAL (${page}) o ON true
  WHERE ${condition}
  ${newestFirst}`,
    parameters
  }
}

type Parameter = (value: unknown) => string

/** Reads an index that is in list order, and stops at the limit. */
const orderedPage = (
  query: OperationQuery,
  range: ReadonlyArray<string>,
  limit: string,
  parameter: Parameter
): string => {
  const ofType = query.type === null ? [] : [`o.type = ${parameter(query.type)}`]
  const where = [owned, ...ofType, ...range].join(" AND ")
  // No index on the type is in list order without a state. So a list by type names every state.
  const states = query.states.length === 0 && query.type !== null ? operationStates : [...new Set(query.states)]
  if (states.length === 0) return `SELECT ${publicColumns} FROM operations o WHERE ${where} ${newestFirst} ${limit}`
  return `SELECT o.* FROM unnest(${parameter(states)}::text[]) AS wanted (state)
       CROSS JOIN LATERAL (
         SELECT ${publicColumns} FROM operations o WHERE ${where} AND o.state = wanted.state ${newestFirst} ${limit}
       ) o
       ${newestFirst} ${limit}`
}

/**
 * Reads the newest operations first. If they do not fill the page, it reads the operations that were updated after the
 * instant, and sorts them. Each read stops at `maxLookedAt`, before the filters without an index apply. The second read is left
 * out if the first one suffices. `too_broad`: both reads reached the limit.
 */
const updatedPage = (
  query: OperationQuery,
  range: ReadonlyArray<string>,
  limit: string,
  parameter: Parameter,
  updatedAfter: string
): string => {
  const filters = [
    `o.updated_at > ${updatedAfter}`,
    ...range,
    ...query.type === null ? [] : [`o.type = ${parameter(query.type)}`],
    ...query.states.length === 0 ? [] : [`o.state = ANY (${parameter([...new Set(query.states)])}::text[])`]
  ].join(" AND ")
  const page = (looked: string) => `SELECT o.* FROM ${looked} o WHERE ${filters} ${newestFirst} ${limit}`
  return `
    WITH newest AS MATERIALIZED (
      SELECT ${publicColumns} FROM operations o WHERE ${[owned, ...range].join(" AND ")}
      ${newestFirst} LIMIT ${maxLookedAt}
    ), first_look AS MATERIALIZED (
      ${page("newest")}
    ), enough AS MATERIALIZED (
      SELECT (SELECT count(*) FROM first_look) > ${Math.trunc(query.page_size)}
        OR (SELECT count(*) FROM newest) < ${maxLookedAt} AS enough
    ), updated AS MATERIALIZED (
      SELECT ${publicColumns} FROM operations o
      WHERE NOT (SELECT enough FROM enough) AND ${owned} AND o.updated_at > ${updatedAfter}
      ORDER BY o.updated_at LIMIT ${maxLookedAt + 1}
    )
    SELECT o.*, t.too_broad FROM (SELECT count(*) > ${maxLookedAt} AS too_broad FROM updated) t
    LEFT JOIN (
      SELECT * FROM first_look WHERE (SELECT enough FROM enough) UNION ALL (${page("updated")})
    ) o ON true`
}
