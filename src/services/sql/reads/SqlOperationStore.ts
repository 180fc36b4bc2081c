/**
 * The room `services/sql/reads`: what a grant may read, operations and their changes. A statement enters if it checks the grant that reads. Read this
 * file first: reads of operations, one statement each.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { RemainingLimit } from "../../../domain/AuthorizationDetails.ts"
import { type GrantId, type GrantIdentity, type GrantRefusal, operationsRead } from "../../../domain/Grant.ts"
import {
  type MalformedOperation,
  type Operation,
  type OperationId,
  OperationNotFound
} from "../../../domain/Operation.ts"
import { isFiltered, type OperationPage, type OperationQuery } from "../../../domain/OperationQuery.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { orRefusedCredential, toRemainingLimit } from "../limitRows.ts"
import { columnAt, fromValues, type Values } from "../OperationRow.ts"
import {
  findById,
  findLimits,
  type LimitsRow,
  listStatement,
  refusalOf,
  refusedStatement,
  standingAt
} from "./readStatements.ts"

/**
 * The connections of reads that may look at more rows than they return: for filtered lists and sums of budgets (`OperationStore`), and for pages of changes with filters or unfinished transactions (`OperationFeed`).
 *
 * PostgreSQL plans a filtered list with its values, and it may take far longer than a read by id. On a pool that shares
 * connections, other reads would wait behind it, also after its client has gone. So give it a pool without `multiplex`, which
 * cancels an interrupted statement. Null, the default: they use the connections of all other reads.
 */
export const ListClient: Context.Reference<SqlClient.SqlClient | null> = Context.Reference<SqlClient.SqlClient | null>(
  "financial-agents-gateway/services/sql/reads/ListClient",
  { defaultValue: () => null }
)

const refusedBy = (grant: GrantIdentity, [row]: ReadonlyArray<Values>) => refusalOf(grant, row?.[standingAt])

const toPage = (rows: ReadonlyArray<Values>, pageSize: number): Effect.Effect<OperationPage, MalformedOperation> => {
  const page = rows.slice(0, pageSize)
  return Effect.map(fromValues(page), (operations) => {
    const last = rows.length > pageSize ? operations.at(-1)! : null
    return { operations, next: last === null ? null : { created_at: last.created_at, id: last.id } }
  })
}

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const listing = (yield* ListClient) ?? sql

  const find = (grant: GrantIdentity, id: OperationId) => {
    const { parameters, text } = findById(grant, id)
    return Effect.flatMap(
      orUnavailable(sql.unsafe(text, parameters).values),
      (rows): Effect.Effect<Operation, GrantRefusal | OperationNotFound | MalformedOperation> => {
        const refused = refusedBy(grant, rows)
        if (refused !== null) return Effect.fail(refused)
        const [row] = rows
        return row === undefined || row[columnAt.id] === null
          ? Effect.fail(new OperationNotFound({ id }))
          : Effect.map(fromValues([row]), ([operation]) => operation!)
      }
    )
  }

  const list = (grant: GrantIdentity, query: OperationQuery) => {
    const { parameters, text } = listStatement(grant, query)
    return Effect.flatMap(
      // PostgreSQL plans a filtered list with its values, because the number of matching rows decides on the index.
      orUnavailable(
        isFiltered(query) ? listing.unsafe(text, parameters).valuesUnprepared : sql.unsafe(text, parameters).values
      ),
      (rows): Effect.Effect<OperationPage, GrantRefusal | MalformedOperation> => {
        const refused = refusedBy(grant, rows)
        if (refused !== null) return Effect.fail(refused)
        // Without an operation, the statement returns one row for the standing alone.
        return toPage(rows[0]?.[columnAt.id] === null ? [] : rows, query.page_size)
      }
    )
  }

  const limits = (grant: GrantIdentity) => {
    const { parameters, text } = findLimits(grant)
    return Effect.flatMap(
      orUnavailable(orRefusedCredential(grant, listing.unsafe<LimitsRow>(text, parameters))),
      ([row]): Effect.Effect<ReadonlyArray<RemainingLimit>, GrantRefusal> => {
        const refused = refusalOf(grant, row?.standing)
        return refused === null ? Effect.succeed(row!.limits.map(toRemainingLimit)) : Effect.fail(refused)
      }
    )
  }

  const refused = (grants: ReadonlyArray<GrantIdentity>) =>
    Effect.map(
      orUnavailable(sql.unsafe<{ readonly id: GrantId }>(refusedStatement, [
        grants.map(({ grant_id }) => grant_id),
        grants.map(({ client_id }) => client_id),
        grants.map(({ subject }) => subject),
        operationsRead
      ])),
      (rows) => rows.map(({ id }) => id)
    )

  return { find, list, limits, refused }
})
