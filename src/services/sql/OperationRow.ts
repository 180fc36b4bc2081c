/**
 * The room `sql`: the implementations in PostgreSQL. A statement belongs into the room of its service; only what several rooms use stands
 * here, with migrations and roles. Read this file first: an operation in the database, the columns of its public form.
 */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import {
  isTerminal,
  MalformedOperation,
  type Operation,
  type OperationId,
  OperationNotFound,
  type OperationState,
  submissionUncertain
} from "../../domain/Operation.ts"
import { makeInstant } from "../../domain/Timestamp.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"

/** The position of each column in `publicColumns`. */
export const columnAt = {
  id: 0,
  type: 1,
  state: 2,
  revision: 3,
  under_review: 4,
  created_at: 5,
  updated_at: 6,
  completed_at: 7,
  failure_code: 8,
  failure_message: 9
} as const satisfies Record<keyof OperationRow, number>

/** The columns of the public form, of a table or subquery `o`. Reads select no private column, so none can leak. */
export const publicColumns = Object.keys(columnAt).map((name) => `o.${name}`).join(", ")

/** A timestamp as the connection yields it: as `Date`, or in milliseconds since the epoch. */
export type Instant = Date | number

/** The values of a row, in the order of its columns. */
export type Values = ReadonlyArray<unknown>

export interface OperationRow {
  readonly id: string
  readonly type: string
  readonly state: OperationState
  readonly revision: number
  readonly under_review: boolean
  readonly created_at: Instant
  readonly updated_at: Instant
  readonly completed_at: Instant | null
  readonly failure_code: string | null
  readonly failure_message: string | null
}

/** The instant of a timestamp of either form. */
export const instantOf = (instant: Instant): DateTime.Utc =>
  makeInstant(typeof instant === "number" ? instant : instant.getTime())

/**
 * The operation of a row whose values begin with `publicColumns`. Throws if a timestamp is none, or a value has another type than its
 * column. The encoder of a response checks the contract.
 */
const operationOf = (row: Values): Operation => {
  // The columns of the table have these types.
  const state = row[columnAt.state] as OperationState
  const completed = row[columnAt.completed_at] as Instant | null
  const code = row[columnAt.failure_code] as string | null
  const message = row[columnAt.failure_message] as string | null
  return {
    id: row[columnAt.id] as OperationId,
    type: row[columnAt.type] as string,
    state,
    terminal: isTerminal(state),
    submission_uncertain: submissionUncertain(state),
    under_review: row[columnAt.under_review] as boolean,
    revision: row[columnAt.revision] as number,
    created_at: instantOf(row[columnAt.created_at] as Instant),
    updated_at: instantOf(row[columnAt.updated_at] as Instant),
    completed_at: completed === null ? null : instantOf(completed),
    failure: code === null || message === null ? null : { code, message }
  }
}

const names = Object.keys(columnAt) as ReadonlyArray<keyof OperationRow>

/** The operation of a row with names. */
export const fromRow = (row: OperationRow): Operation => operationOf(names.map((name) => row[name]))

/** The operations of rows. Fails with the first one that is none. */
export const fromValues = (
  rows: ReadonlyArray<Values>
): Effect.Effect<ReadonlyArray<Operation>, MalformedOperation> => {
  const operations: Array<Operation> = []
  for (const row of rows) {
    try {
      operations.push(operationOf(row))
    } catch {
      return Effect.fail(MalformedOperation.of(row[columnAt.id]))
    }
  }
  return Effect.succeed(operations)
}

/** Finds an operation by its id, of any owner. */
export const findOperation = (
  sql: SqlClient.SqlClient,
  id: OperationId
): Effect.Effect<Operation, OperationNotFound | StoreUnavailable> =>
  Effect.flatMap(
    orUnavailable(sql.unsafe<OperationRow>(`SELECT ${publicColumns} FROM operations o WHERE o.id = $1`, [id])),
    ([row]) => row === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(fromRow(row))
  )
