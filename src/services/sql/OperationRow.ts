/**
 * The room `sql`: the implementations in PostgreSQL. A statement belongs into the room of its service; only what several rooms use stands
 * here, with migrations and roles. Read this file first: an operation in the database, the columns of its public form.
 */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import * as Struct from "effect/Struct"
import {
  isTerminal,
  MalformedOperation,
  Operation,
  type OperationId,
  OperationNotFound,
  type OperationState,
  submissionUncertain
} from "../../domain/Operation.ts"
import { makeInstant } from "../../domain/Timestamp.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"

/** A timestamp as the connection yields it: as `Date`, or in milliseconds since the epoch. */
export type Instant = Date | number

/** The values of a row, in the order of its columns. */
export type Values = ReadonlyArray<unknown>

/** Members without a column of their name: functions of the state, and the failure, which has two columns. */
const derived = ["terminal", "submission_uncertain", "failure"] as const

type Stored = Omit<Operation, typeof derived[number]>

type Column<A> = A extends DateTime.Utc ? Instant : A

export type OperationRow = { readonly [Name in keyof Stored]: Column<Stored[Name]> } & {
  readonly failure_code: string | null
  readonly failure_message: string | null
}

const names = [
  ...Struct.keys(Struct.omit(Operation.fields, derived)),
  "failure_code",
  "failure_message"
] as const

/** The position of each column in `publicColumns`. */
export const columnAt = Object.fromEntries(names.map((name, n) => [name, n])) as Record<keyof OperationRow, number>

/** The columns of the public form, of a table or subquery `o`. Reads select no private column, so none can leak. */
export const publicColumns = names.map((name) => `o.${name}`).join(", ")

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
  const updated = row[columnAt.updated_at] as Instant
  const completed = row[columnAt.completed_at] as Instant | null
  const updatedAt = instantOf(updated)
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
    updated_at: updatedAt,
    // Most operations complete with their last update.
    completed_at: completed === null ? null : completed === updated ? updatedAt : instantOf(completed),
    failure: code === null || message === null ? null : { code, message }
  }
}

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
