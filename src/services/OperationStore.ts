/**
 * The read side: what a grant may see of its operations.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
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
import { MemoryLedger } from "./MemoryLedger.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
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

/** One page, newest first; `next` is null on the last one. */
export interface OperationPage {
  readonly operations: ReadonlyArray<Operation>
  readonly next: OperationCursor | null
}

/**
 * Reads for a grant. Each call is one statement that checks, in one snapshot and in this order, grant, client, scope,
 * provider binding and ownership: a read that starts after a revocation was committed never succeeds.
 */
export class OperationStore extends Context.Service<OperationStore, {
  /** Fails with `OperationNotFound` for an unknown id and for a foreign one alike. */
  readonly find: (
    grant: GrantIdentity,
    id: OperationId
  ) => Effect.Effect<Operation, GrantRefusal | OperationNotFound | StoreUnavailable>
  /** By `created_at` descending, then `id` descending. The cost depends on the page, not on what the owner has. */
  readonly list: (
    grant: GrantIdentity,
    query: OperationQuery
  ) => Effect.Effect<OperationPage, GrantRefusal | StoreUnavailable>
}>()("financial-agents-gateway/services/OperationStore") {
  static readonly layer: Layer.Layer<OperationStore, never, SqlClient.SqlClient> = Layer.effect(
    OperationStore,
    Effect.map(SqlClient.SqlClient, (sql) =>
      OperationStore.of({
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
          const statement = sql.unsafe<JoinedRow>(text, parameters)
          return Effect.flatMap(
            // A filter is planned with its value, because how many rows it leaves decides which index is right.
            orUnavailable(isFiltered(query) ? statement.unprepared : statement),
            (rows): Effect.Effect<OperationPage, GrantRefusal> => {
              const refused = refusalOf(grant, rows)
              if (refused !== null) return Effect.fail(refused)
              return Effect.succeed(
                toPage(rows.flatMap((row) => row.id === null ? [] : [fromRow(row)]), query.page_size)
              )
            }
          )
        }
      }))
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
          Effect.map(Effect.suspend(() => grantOf(identity)), (grant) =>
            toPage(
              memory.ownedBy(grant).map((record) => record.operation).filter(matches(query)).toSorted(newestFirst)
                .slice(0, query.page_size + 1),
              query.page_size
            ))
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
  JOIN provider_bindings p ON p.id = g.provider_binding_id`

const grantCondition = "g.id = $1 AND g.client_id = $2 AND g.subject = $3"

const owned = "o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND o.subject = g.subject"

const findStatement = `
  SELECT ${standingColumns}, ${publicColumns}
  ${grantTables}
  LEFT JOIN operations o ON o.id = $5 AND ${owned}
  WHERE ${grantCondition}`

const newestFirstSql = "ORDER BY o.created_at DESC, o.id DESC"

const isFiltered = (query: OperationQuery): boolean =>
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
  let conditions = owned
  if (query.type !== null) conditions += ` AND o.type = ${parameter(query.type)}`
  if (query.created_after !== null) {
    conditions += ` AND o.created_at > ${parameter(DateTime.toDateUtc(query.created_after))}`
  }
  if (query.created_before !== null) {
    conditions += ` AND o.created_at < ${parameter(DateTime.toDateUtc(query.created_before))}`
  }
  if (query.updated_after !== null) {
    conditions += ` AND o.updated_at > ${parameter(DateTime.toDateUtc(query.updated_after))}`
  }
  if (query.after !== null) {
    conditions += ` AND (o.created_at, o.id) < (${parameter(DateTime.toDateUtc(query.after.created_at))}, ${
      parameter(query.after.id)
    })`
  }
  // Without a state there is no index on the type that is in list order, so a type asks for every state by name.
  const states = query.states.length === 0 && query.type !== null ? operationStates : [...new Set(query.states)]
  // Spelled out: a plan that is made for any limit is never kept, and the statement would be planned anew each time.
  const limit = `LIMIT ${Math.trunc(query.page_size) + 1}`
  const page = states.length === 0
    ? `SELECT ${publicColumns} FROM operations o WHERE ${conditions} ${newestFirstSql} ${limit}`
    : `SELECT o.* FROM unnest(${parameter(states)}::text[]) AS wanted (state)
       CROSS JOIN LATERAL (
         SELECT ${publicColumns} FROM operations o WHERE ${conditions} AND o.state = wanted.state ${newestFirstSql} ${limit}
       ) o
       ${newestFirstSql} ${limit}`
  return {
    text: `
  SELECT ${standingColumns}, ${publicColumns}
  ${grantTables}
  LEFT JOIN LATERAL (${page}) o ON true
  WHERE ${grantCondition}
  ${newestFirstSql}`,
    parameters
  }
}

// --- memory

const newestFirst = (a: OperationCursor, b: OperationCursor): number =>
  b.created_at.epochMilliseconds - a.created_at.epochMilliseconds || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

const matches = (query: OperationQuery) => (operation: Operation): boolean =>
  (query.states.length === 0 || query.states.includes(operation.state))
  && (query.type === null || query.type === operation.type)
  && (query.created_after === null || DateTime.isGreaterThan(operation.created_at, query.created_after))
  && (query.created_before === null || DateTime.isLessThan(operation.created_at, query.created_before))
  && (query.updated_after === null || DateTime.isGreaterThan(operation.updated_at, query.updated_after))
  && (query.after === null || newestFirst(query.after, operation) < 0)
