/**
 * Reads of operations in PostgreSQL: one statement each, which checks the grant as well.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { EncodedOperation, EncodedPage, MalformedOperation } from "../../domain/EncodedOperation.ts"
import { type GrantId, type GrantIdentity, type GrantRefusal, operationsRead } from "../../domain/Grant.ts"
import { type Operation, type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import { isFiltered, type OperationPage, type OperationQuery, toPage } from "../../domain/OperationQuery.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { encodeRow, encodeRows } from "./encodedRows.ts"
import { ListClient } from "./ListClient.ts"
import { columnAt, fromRow, type OperationRow } from "./OperationRow.ts"
import { findById, listStatement, refusedStatement, standingAt } from "./readStatements.ts"
import { refusalOf } from "./refusalOf.ts"

/** The standing of the grant, beside an operation if there is one. */
type JoinedRow = { readonly standing: number } & (OperationRow | { readonly id: null })

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const listing = (yield* ListClient) ?? sql

  /** Its rows as records, or as values. */
  const finding = (grant: GrantIdentity, id: OperationId) => {
    const { parameters, text } = findById(grant, id)
    return sql.unsafe<JoinedRow>(text, parameters)
  }

  const find = (grant: GrantIdentity, id: OperationId) =>
    Effect.flatMap(
      orUnavailable(finding(grant, id)),
      ([row]): Effect.Effect<Operation, GrantRefusal | OperationNotFound> => {
        const refused = refusalOf(grant, row?.standing)
        if (refused !== null) return Effect.fail(refused)
        return row === undefined || row.id === null
          ? Effect.fail(new OperationNotFound({ id }))
          : Effect.succeed(fromRow(row))
      }
    )

  const findEncoded = (grant: GrantIdentity, id: OperationId) =>
    Effect.flatMap(
      orUnavailable(finding(grant, id).values),
      ([row]): Effect.Effect<EncodedOperation, GrantRefusal | OperationNotFound | MalformedOperation> => {
        const refused = refusalOf(grant, row?.[standingAt])
        if (refused !== null) return Effect.fail(refused)
        return row === undefined || row[columnAt.id] === null
          ? Effect.fail(new OperationNotFound({ id }))
          : encodeRow(row)
      }
    )

  /** PostgreSQL plans a filtered list with its values, because the number of matching rows decides on the index. */
  const selecting = (grant: GrantIdentity, query: OperationQuery) => {
    const { parameters, text } = listStatement(grant, query)
    const planned = isFiltered(query)
    return { planned, statement: (planned ? listing : sql).unsafe<JoinedRow>(text, parameters) }
  }

  const list = (grant: GrantIdentity, query: OperationQuery) => {
    const { planned, statement } = selecting(grant, query)
    return Effect.flatMap(
      orUnavailable(planned ? statement.unprepared : statement),
      (rows): Effect.Effect<OperationPage, GrantRefusal> => {
        const refused = refusalOf(grant, rows[0]?.standing)
        if (refused !== null) return Effect.fail(refused)
        return Effect.succeed(toPage(rows.flatMap((row) => row.id === null ? [] : [fromRow(row)]), query.page_size))
      }
    )
  }

  const listEncoded = (grant: GrantIdentity, query: OperationQuery) => {
    const { planned, statement } = selecting(grant, query)
    return Effect.flatMap(
      orUnavailable(planned ? statement.valuesUnprepared : statement.values),
      (rows): Effect.Effect<EncodedPage, GrantRefusal | MalformedOperation> => {
        const refused = refusalOf(grant, rows[0]?.[standingAt])
        if (refused !== null) return Effect.fail(refused)
        // Without an operation, the statement returns one row for the standing alone.
        return encodeRows(rows[0]?.[columnAt.id] === null ? [] : rows, query.page_size)
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

  return { find, findEncoded, list, listEncoded, refused }
})
