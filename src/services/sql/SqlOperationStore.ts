/**
 * Reads of operations in PostgreSQL: one statement each, which checks the grant as well.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type GrantIdentity,
  type GrantRefusal,
  type GrantStanding,
  GrantUnknown,
  operationsRead,
  refusal,
  standingFor
} from "../../domain/Grant.ts"
import { type Operation, type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import {
  isFiltered,
  type OperationPage,
  type OperationQuery,
  QueryTooBroad,
  toPage
} from "../../domain/OperationQuery.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { ListClient } from "./ListClient.ts"
import { fromRow, type OperationRow } from "./OperationRow.ts"
import { findStatement, listStatement } from "./readStatements.ts"

/** The standing of the grant, beside an operation if there is one. */
type JoinedRow = GrantStanding & (OperationRow | { readonly id: null })

type ListedRow = JoinedRow & { readonly too_broad?: boolean }

const refusalOf = (identity: GrantIdentity, rows: ReadonlyArray<GrantStanding>): GrantRefusal | null =>
  rows.length === 0 ? new GrantUnknown() : refusal(standingFor(identity, rows[0]!, operationsRead), operationsRead)

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const listing = (yield* ListClient) ?? sql

  const find = (grant: GrantIdentity, id: OperationId) =>
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
    )

  const list = (grant: GrantIdentity, query: OperationQuery) => {
    const { parameters, text } = listStatement(grant, query)
    return Effect.flatMap(
      // PostgreSQL plans a filtered list with its values, because the number of matching rows decides on the index.
      orUnavailable(
        isFiltered(query)
          ? listing.unsafe<ListedRow>(text, parameters).unprepared
          : sql.unsafe<ListedRow>(text, parameters)
      ),
      (rows): Effect.Effect<OperationPage, GrantRefusal | QueryTooBroad> => {
        const refused = refusalOf(grant, rows)
        if (refused !== null) return Effect.fail(refused)
        if (rows[0]!.too_broad === true) return Effect.fail(new QueryTooBroad())
        return Effect.succeed(toPage(rows.flatMap((row) => row.id === null ? [] : [fromRow(row)]), query.page_size))
      }
    )
  }

  return { find, list }
})
