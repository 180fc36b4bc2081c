/**
 * The room `sql`: the implementations in PostgreSQL. A statement belongs into the room of its service; only what several rooms use stands
 * here, with migrations and roles. Read this file first, then `OperationRow`.
 */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import { type Operation, type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"

/** Finds an operation by its id, of any owner. */
export const findOperation = (
  sql: SqlClient.SqlClient,
  id: OperationId
): Effect.Effect<Operation, OperationNotFound | StoreUnavailable> =>
  Effect.flatMap(
    orUnavailable(sql.unsafe<OperationRow>(`SELECT ${publicColumns} FROM operations o WHERE o.id = $1`, [id])),
    ([row]) => row === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(fromRow(row))
  )
