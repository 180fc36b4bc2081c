/** The statements that read operations. `$1` to `$3` name the grant, and `$4` is the scope that reads require. */
import * as DateTime from "effect/DateTime"
import {
  type GrantIdentity,
  type GrantRefusal,
  GrantUnknown,
  operationsRead,
  refusal,
  standingFor
} from "../../../domain/Grant.ts"
import type { IdempotencyKey } from "../../../domain/Idempotency.ts"
import { type OperationId, operationStates } from "../../../domain/Operation.ts"
import type { OperationQuery } from "../../../domain/OperationQuery.ts"
import { goodStanding, grantOfCredential, isGrantOfCredential, standingInteger, standingOf } from "../grantStanding.ts"
import { remainingOf, type RemainingRow } from "../limitRows.ts"
import { columnAt, publicColumns } from "../OperationRow.ts"

/**
 * A condition that only a primary server can check. In recovery the statement fails with SQLSTATE 55000, which
 * `orUnavailable` turns into `StoreUnavailable`.
 *
 * A standby, and a demoted primary, may show commits that a failover reverts, and lack revocations that the primary has
 * committed. PostgreSQL checks the condition once, before it reads a row. So a standby that lacks a grant fails as well, and
 * does not report the grant as unknown.
 */
export const onPrimary = "(SELECT pg_current_wal_insert_lsn()) IS NOT NULL"

/** The same, for a statement that a standby may serve under the rules of the room `cluster`. `forStandby` makes it the standby's. */
export const onPrimaryOrStandby = "(SELECT pg_current_wal_insert_lsn() AS or_on_standby) IS NOT NULL"

/** Whether the operation `o` belongs to the grant `g`. */
export const owned = "o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND o.subject = g.subject"

/** The columns of every read: an operation, if there is one, and the standing of the grant. */
const columns = `${publicColumns}, ${standingInteger("$4 = ANY (g.scopes)")} AS standing`

/** The position of the column behind those of the operation. */
export const standingAt = Object.keys(columnAt).length

/** A server in recovery fails here, before it looks for the grant, unless it may serve: see `onPrimary`. */
const condition = `${onPrimaryOrStandby} AND ${isGrantOfCredential}`

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

/** The row of `findLimits`. */
export interface LimitsRow {
  readonly standing: number
  readonly limits: ReadonlyArray<RemainingRow>
}

const limitsStatement = `
  SELECT ${standingInteger("$4 = ANY (g.scopes)")} AS standing, ${remainingOf("$5")} AS limits
  ${grantOfCredential}
  WHERE ${onPrimary} AND ${isGrantOfCredential}`

/** The statement that finds what remains of the limits. A standby could lack reservations, so only a primary serves it. */
export const findLimits = (grant: GrantIdentity) => ({
  text: limitsStatement,
  parameters: [
    grant.grant_id,
    grant.client_id,
    grant.subject,
    operationsRead,
    grant.authorization_details === undefined ? null : JSON.stringify(grant.authorization_details)
  ]
})

/**
 * The grants of `$1` ids, `$2` clients and `$3` subjects that may not read now. A scalar subquery is one lookup for each grant: as a
 * join of thousands, PostgreSQL would read all grants.
 */
export const refusedStatement = `
  SELECT w.id FROM unnest($1::uuid[], $2::text[], $3::text[]) AS w (id, client_id, subject)
  WHERE ${onPrimary} AND (
    SELECT ${standingInteger("$4 = ANY (g.scopes)")} ${grantOfCredential}
    WHERE g.id = w.id AND g.client_id = w.client_id AND g.subject = w.subject
  ) IS DISTINCT FROM ${goodStanding}`

const newestFirst = "ORDER BY o.created_at DESC, o.id DESC"

/** The statement for a query. Its text has one parameter for each filter that is set. */
export const listStatement = (grant: GrantIdentity, query: OperationQuery) => {
  const parameters: Array<unknown> = [grant.grant_id, grant.client_id, grant.subject, operationsRead]
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
  // One operation needs no order.
  const [page, order] = query.key === null
    ? [orderedPage(query, range, parameter), newestFirst]
    : [boundPage(query, query.key, range, parameter), ""]
  return {
    text: `
  SELECT ${columns}
  ${grantOfCredential}
  LEFT JOIN LATERAL (${page}) o ON true
  WHERE ${condition}
  ${order}`,
    parameters
  }
}

type Parameter = (value: unknown) => string

/** Reads an index that is in list order, and stops at the limit. */
const orderedPage = (
  query: OperationQuery,
  range: ReadonlyArray<string>,
  parameter: Parameter
): string => {
  // A literal: PostgreSQL never keeps a plan for any limit, and would plan the statement anew each time.
  const limit = `LIMIT ${Math.trunc(query.page_size) + 1}`
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
 * Reads the operation of a key from the index of the request binding. The other filters apply to the operation that was found.
 *
 * The range begins with the key, which no other index has. With `o.client_id = …`, PostgreSQL may choose an index in list order
 * while its statistics are stale, and read all operations of the client. Of a range alone it expects one row in 200: on a ledger
 * of ten million it would plan each call anew. The equality tells it that there are few.
 */
const boundPage = (
  query: OperationQuery,
  key: IdempotencyKey,
  range: ReadonlyArray<string>,
  parameter: Parameter
): string => {
  const wanted = parameter(key)
  const binding = `(${wanted}, g.client_id, g.subject)`
  const where = [
    owned,
    ...query.type === null ? [] : [`o.type = ${parameter(query.type)}`],
    ...query.states.length === 0 ? [] : [`o.state = ANY (${parameter([...new Set(query.states)])}::text[])`],
    ...range
  ].join(" AND ")
  return `
    WITH bound AS MATERIALIZED (
      SELECT ${publicColumns}, o.client_id, o.resource_owner, o.subject FROM operations o
      WHERE o.idempotency_key = ${wanted} AND (o.idempotency_key, o.client_id, o.subject) >= ${binding}
        AND (o.idempotency_key, o.client_id, o.subject) <= ${binding}
    )
    SELECT ${publicColumns} FROM bound o WHERE ${where}`
}

/** Why the grant may not read, from the standing in the first row; undefined if the statement returned no row. Null: it may. */
export const refusalOf = (identity: GrantIdentity, standing: unknown): GrantRefusal | null => {
  if (standing === goodStanding && identity.limited_to === undefined) return null
  return typeof standing === "number"
    ? refusal(standingFor(identity, standingOf(standing), operationsRead), operationsRead)
    : new GrantUnknown()
}
