/**
 * The read side: what a grant may see of its operations.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type GrantIdentity,
  type GrantRefusal,
  type GrantStanding,
  GrantUnknown,
  operationsRead,
  refusal,
  standingAt,
  standingFor
} from "../domain/Grant.ts"
import {
  type Operation,
  type OperationId,
  OperationNotFound,
  type OperationState,
  operationStates,
  type OperationType
} from "../domain/Operation.ts"
import { MemoryLedger } from "./memory/MemoryLedger.ts"
import { ListClient } from "./sql/ListClient.ts"
import { onPrimary } from "./sql/onPrimary.ts"
import { fromRow, type OperationRow, publicColumns } from "./sql/OperationRow.ts"
import { orUnavailable, type StoreUnavailable } from "./StoreUnavailable.ts"

/** Where a page ends: the sort values of its last operation. It names a place in the order, not a row. */
export interface OperationCursor {
  readonly created_at: DateTime.Utc
  readonly id: OperationId
}

/** Which operations to list. Bounds are exclusive; null means no bound; no states means all of them. */
export interface OperationQuery {
  readonly states: ReadonlyArray<OperationState>
  readonly type: OperationType | null
  readonly created_after: DateTime.Utc | null
  readonly created_before: DateTime.Utc | null
  readonly updated_after: DateTime.Utc | null
  /** Operations a page, 1 to 100. */
  readonly page_size: number
  readonly after: OperationCursor | null
}

/**
 * Most operations that a list with `updated_after` looks at in either order, by creation and by update. No index has both
 * orders: without a bound, a list that few operations fit would read all that its owner has.
 */
export const maxLookedAt = 5000

/**
 * More than `maxLookedAt` operations were updated after the given instant, and too few of the newest ones fit the other
 * filters. A later instant, or none, is cheap.
 */
export class QueryTooBroad extends Schema.TaggedError<QueryTooBroad>()("QueryTooBroad", {}) {
  override get message() {
    return `more than ${maxLookedAt} operations were updated after that instant, and few of them fit the other filters`
  }
}

/** One page, newest first; `next` is null on the last one. */
export interface OperationPage {
  readonly operations: ReadonlyArray<Operation>
  readonly next: OperationCursor | null
}

/**
 * Reads for a grant. Each call is one statement that checks, in one snapshot and in this order, grant, client, scope,
 * provider connection and ownership: a read that starts after a revocation was committed never succeeds.
 */
export class OperationStore extends Context.Service<OperationStore, {
  /** Fails with `OperationNotFound` for an unknown id and for a foreign one alike. */
  readonly find: (
    grant: GrantIdentity,
    id: OperationId
  ) => Effect.Effect<Operation, GrantRefusal | OperationNotFound | StoreUnavailable>
  /**
   * By `created_at` descending, then `id` descending. The cost depends on the page, not on what the owner has. Fails with
   * `QueryTooBroad` when `updated_after` would make it look at more than that.
   */
  readonly list: (
    grant: GrantIdentity,
    query: OperationQuery
  ) => Effect.Effect<OperationPage, GrantRefusal | QueryTooBroad | StoreUnavailable>
}>()("financial-agents-gateway/services/OperationStore") {
  static readonly layer: Layer.Layer<OperationStore, never, SqlClient.SqlClient> = Layer.effect(
    OperationStore,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const listing = (yield* ListClient) ?? sql
      return OperationStore.of({
        find: (grant, id) =>
          Effect.flatMap(
            orUnavailable(
              sql.unsafe<JoinedRow>(findStatement, [grant.grant_id, grant.client_id, grant.subject, operationsRead, id])
            ),
            (rows): Effect.Effect<Operation, GrantRefusal | OperationNotFound> => {
              const refused = refusalOf(grant, rows)
              if (refused !== null) return Effect.fail(refused)
              const row = rows[0]!
              return row.id === null ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(fromRow(row))
            }
          ),
        list: (grant, query) => {
          const { parameters, text } = listStatement(grant, query)
          return Effect.flatMap(
            // A filter is planned with its value, because how many rows it leaves decides which index is right.
            orUnavailable(
              isFiltered(query)
                ? listing.unsafe<ListedRow>(text, parameters).unprepared
                : sql.unsafe<ListedRow>(text, parameters)
            ),
            (rows): Effect.Effect<OperationPage, GrantRefusal | QueryTooBroad> => {
              const refused = refusalOf(grant, rows)
              if (refused !== null) return Effect.fail(refused)
              if (rows[0]!.too_broad === true) return Effect.fail(new QueryTooBroad())
              return Effect.succeed(
                toPage(rows.flatMap((row) => row.id === null ? [] : [fromRow(row)]), query.page_size)
              )
            }
          )
        }
      })
    })
  )

  static readonly layerMemory: Layer.Layer<OperationStore, never, MemoryLedger> = Layer.effect(
    OperationStore,
    Effect.gen(function*() {
      const memory = yield* MemoryLedger
      const clock = yield* Clock.Clock
      const grantOf = (identity: GrantIdentity) => {
        const grant = memory.grantOf(identity)
        if (grant === undefined) return Effect.fail(new GrantUnknown())
        const now = DateTime.makeUnsafe(clock.currentTimeMillisUnsafe())
        const standing = standingFor(identity, standingAt(grant, operationsRead, now), operationsRead)
        const refused = refusal(standing, operationsRead)
        return refused === null ? Effect.succeed(grant) : Effect.fail(refused)
      }
      return OperationStore.of({
        find: (identity, id) =>
          Effect.flatMap(Effect.suspend(() => grantOf(identity)), (grant) => {
            const record = memory.ownedBy(grant).find((record) => record.operation.id === id)
            return record === undefined
              ? Effect.fail(new OperationNotFound({ id }))
              : Effect.succeed(record.operation)
          }),
        list: (identity, query) =>
          Effect.flatMap(Effect.suspend(() => grantOf(identity)), (grant) => {
            const owned = memory.ownedBy(grant).map((record) => record.operation)
            const found = owned.toSorted(newestFirst).filter(matches(query)).slice(0, query.page_size + 1)
            return isTooBroad(owned, query)
              ? Effect.fail(new QueryTooBroad())
              : Effect.succeed(toPage(found, query.page_size))
          })
      })
    })
  )
}

const toPage = (operations: ReadonlyArray<Operation>, pageSize: number): OperationPage => {
  if (operations.length <= pageSize) return { operations, next: null }
  const page = operations.slice(0, pageSize)
  const { created_at, id } = page[pageSize - 1]!
  return { operations: page, next: { created_at, id } }
}

// --- PostgreSQL

/** The grant's standing, beside an operation if there is one. */
type JoinedRow = GrantStanding & (OperationRow | { readonly id: null })

type ListedRow = JoinedRow & { readonly too_broad?: boolean }

const refusalOf = (identity: GrantIdentity, rows: ReadonlyArray<GrantStanding>): GrantRefusal | null =>
  rows.length === 0 ? new GrantUnknown() : refusal(standingFor(identity, rows[0]!, operationsRead), operationsRead)

const standingColumns = `
    g.revoked_at IS NOT NULL AS revoked,
    g.expires_at <= now() AS expired,
    c.active AS client_active,
    $4 = ANY (g.scopes) AS scope_granted,
    p.connected AS provider_connected`

const grantTables = `
  FROM grants g
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id`

const grantCondition = `${onPrimary} AND g.id = $1 AND g.client_id = $2 AND g.subject = $3`

const owned = "o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND o.subject = g.subject"

const findStatement = `
  SELECT ${standingColumns}, ${publicColumns}
  ${grantTables}
  LEFT JOIN operations o ON o.id = $5 AND ${owned}
  WHERE ${grantCondition}`

const newestFirstSql = "ORDER BY o.created_at DESC, o.id DESC"

/** Whether a list may look at more rows than it yields, and is planned with its values. */
export const isFiltered = (query: OperationQuery): boolean =>
  query.states.length > 0 || query.type !== null || query.created_after !== null || query.created_before !== null
  || query.updated_after !== null

/** The statement for a query: its text has one parameter for each filter that is set. */
const listStatement = (grant: GrantIdentity, query: OperationQuery) => {
  const parameters: Array<unknown> = [
    grant.grant_id,
    grant.client_id,
    grant.subject,
    operationsRead
  ]
  const parameter = (value: unknown) => `$${parameters.push(value)}`
  /** What an index in list order can begin and end with. */
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
  // Spelled out: a plan that is made for any limit is never kept, and the statement would be planned anew each time.
  const limit = `LIMIT ${Math.trunc(query.page_size) + 1}`
  const page = query.updated_after === null
    ? orderedPage(query, range, limit, parameter)
    : updatedPage(query, range, limit, parameter, parameter(DateTime.toDateUtc(query.updated_after)))
  return {
    text: `
  SELECT ${standingColumns}, ${publicColumns}${query.updated_after === null ? "" : ", o.too_broad"}
  ${grantTables}
  LEFT JOIN LATERAL (${page}) o ON true
  WHERE ${grantCondition}
  ${newestFirstSql}`,
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
  // Without a state there is no index on the type that is in list order, so a type asks for every state by name.
  const states = query.states.length === 0 && query.type !== null ? operationStates : [...new Set(query.states)]
  if (states.length === 0) return `SELECT ${publicColumns} FROM operations o WHERE ${where} ${newestFirstSql} ${limit}`
  return `SELECT o.* FROM unnest(${parameter(states)}::text[]) AS wanted (state)
       CROSS JOIN LATERAL (
         SELECT ${publicColumns} FROM operations o WHERE ${where} AND o.state = wanted.state ${newestFirstSql} ${limit}
       ) o
       ${newestFirstSql} ${limit}`
}

/**
 * Looks at the newest operations first. When they do not fill the page, it looks at what was updated after the instant,
 * and sorts that. Each look is bounded before the filters without an index apply, and the second is left out when it is not
 * needed. `too_broad` tells that both bounds were met.
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
  const page = (looked: string) => `SELECT o.* FROM ${looked} o WHERE ${filters} ${newestFirstSql} ${limit}`
  return `
    WITH newest AS MATERIALIZED (
      SELECT ${publicColumns} FROM operations o WHERE ${[owned, ...range].join(" AND ")}
      ${newestFirstSql} LIMIT ${maxLookedAt}
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

// --- memory

const newestFirst = (a: OperationCursor, b: OperationCursor): number =>
  b.created_at.epochMilliseconds - a.created_at.epochMilliseconds || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

const isUpdatedAfter = ({ updated_after }: OperationQuery) => (operation: Operation): boolean =>
  updated_after === null || DateTime.isGreaterThan(operation.updated_at, updated_after)

/** Whether PostgreSQL would meet both bounds: see `updatedPage`. */
const isTooBroad = (owned: ReadonlyArray<Operation>, query: OperationQuery): boolean => {
  if (query.updated_after === null || owned.filter(isUpdatedAfter(query)).length <= maxLookedAt) return false
  const newest = owned.filter(isInRange(query)).toSorted(newestFirst).slice(0, maxLookedAt)
  return newest.length === maxLookedAt && newest.filter(matches(query)).length <= query.page_size
}

const matches = (query: OperationQuery) => (operation: Operation): boolean =>
  (query.type === null || query.type === operation.type)
  && (query.states.length === 0 || query.states.includes(operation.state))
  && isUpdatedAfter(query)(operation)
  && isInRange(query)(operation)

const isInRange = (query: OperationQuery) => (operation: Operation): boolean =>
  (query.created_after === null || DateTime.isGreaterThan(operation.created_at, query.created_after))
  && (query.created_before === null || DateTime.isLessThan(operation.created_at, query.created_before))
  && (query.after === null || newestFirst(query.after, operation) < 0)
