/**
 * The room `services/sql`: the implementations in PostgreSQL. A statement belongs into the room of its service; only what several rooms use stands
 * here, with migrations and roles. Read this file first: an operation in the database, the columns of its public form.
 */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import * as Struct from "effect/Struct"
import {
  isTerminal,
  MalformedOperation,
  type Operation,
  type OperationId,
  OperationNotFound,
  OperationState,
  submissionUncertain
} from "../../domain/Operation.ts"
import { makeInstant } from "../../domain/Timestamp.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"

/**
 * A timestamp as the connection yields it: as `Date`, or in milliseconds since the epoch. A refinement, which the compiler of schemas puts in
 * line: a union or a declaration costs a list of 100 operations 40 µs.
 */
const Instant = Schema.Unknown.pipe(
  Schema.refine((value): value is Date | number => typeof value === "number" || value instanceof Date)
)
export type Instant = typeof Instant.Type

/** The values of a row, in the order of its columns. */
export type Values = ReadonlyArray<unknown>

/** Members without a column of their name: functions of the state, and the failure, which has two columns. */
type Stored = Omit<Operation, "terminal" | "submission_uncertain" | "failure">

/** The type of a column in a row. */
export type Column<A> = A extends DateTime.Utc ? Instant : A

export type OperationRow = { readonly [Name in keyof Stored]: Column<Stored[Name]> } & {
  readonly failure_code: string | null
  readonly failure_message: string | null
}

/**
 * The columns with their types. A row is checked against these alone: the encoder of a response checks the contract, so each rule of it
 * stands once.
 */
const columns = {
  id: Schema.String.pipe(Schema.brand("OperationId")),
  type: Schema.String,
  state: OperationState,
  under_review: Schema.Boolean,
  revision: Schema.Number,
  created_at: Instant,
  updated_at: Instant,
  completed_at: Schema.NullOr(Instant),
  failure_code: Schema.NullOr(Schema.String),
  failure_message: Schema.NullOr(Schema.String)
} satisfies { readonly [Name in keyof OperationRow]: Schema.Schema<OperationRow[Name]> }

const names = Struct.keys(columns)

/** The position of each column in `publicColumns`. */
export const columnAt = Object.fromEntries(names.map((name, n) => [name, n])) as Record<keyof OperationRow, number>

/** The columns of the public form, of a table or subquery `o`. Reads select no private column, so none can leak. */
export const publicColumns = names.map((name) => `o.${name}`).join(", ")

/** The instant of a timestamp of either form. */
export const instantOf = (instant: Instant): DateTime.Utc =>
  makeInstant(typeof instant === "number" ? instant : instant.getTime())

export const instantOrNull = (instant: Instant | null): DateTime.Utc | null =>
  instant === null ? null : instantOf(instant)

const { completed_at, created_at, failure_code, failure_message, id, revision, state, type, under_review, updated_at } =
  columns

/** A row whose values begin with `publicColumns`. */
const Row = Schema.TupleWithRest(
  Schema.Tuple([
    id,
    type,
    state,
    under_review,
    revision,
    created_at,
    updated_at,
    completed_at,
    failure_code,
    failure_message
  ]),
  [Schema.Unknown]
)
const isRow = Schema.is(Row)

/** The operation of a row. Throws if a value has another type than its column. */
const operationOf = (row: Values): Operation => {
  if (!isRow(row)) throw MalformedOperation.of(row[columnAt.id])
  const [id, type, state, under_review, revision, created, updated, completed, code, message] = row
  const updated_at = instantOf(updated)
  return {
    id,
    type,
    state,
    terminal: isTerminal(state),
    submission_uncertain: submissionUncertain(state),
    under_review,
    revision,
    created_at: instantOf(created),
    updated_at,
    // Most operations complete with their last update.
    completed_at: completed === null ? null : completed === updated ? updated_at : instantOf(completed),
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

/** The columns of an operation that its terms need. */
export interface TermsRow extends OperationRow {
  readonly terms: Uint8Array | null
  readonly terms_key_id: string | null
}

/** The terms of a row, for `makeOpenTerms`. */
export const sealedTermsOf = (row: TermsRow) =>
  [fromRow(row), row.terms === null ? null : { key_id: row.terms_key_id, payload: row.terms }] as const
