/**
 * An operation in the database: the columns of its public form.
 */
import * as DateTime from "effect/DateTime"
import {
  isTerminal,
  type Operation,
  type OperationId,
  type OperationState,
  submissionUncertain
} from "../../domain/Operation.ts"

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

/** The record of a row's values, which begin with `publicColumns`. */
export const rowOf = (values: ReadonlyArray<unknown>): OperationRow =>
  // The columns of the table have the types of `OperationRow`.
  Object.fromEntries(Object.entries(columnAt).map(([name, at]) => [name, values[at]])) as unknown as OperationRow

/** The instant of a timestamp of either form. */
export const instantOf = (instant: Instant): DateTime.Utc =>
  DateTime.fromDateUnsafe(typeof instant === "number" ? new Date(instant) : instant)

/** Does not validate: the encoder of a response checks each operation against the contract. */
export const fromRow = (row: OperationRow): Operation => ({
  id: row.id as OperationId,
  type: row.type,
  state: row.state,
  terminal: isTerminal(row.state),
  submission_uncertain: submissionUncertain(row.state),
  under_review: row.under_review,
  revision: row.revision,
  created_at: instantOf(row.created_at),
  updated_at: instantOf(row.updated_at),
  completed_at: row.completed_at === null ? null : instantOf(row.completed_at),
  failure: row.failure_code === null || row.failure_message === null
    ? null
    : { code: row.failure_code, message: row.failure_message }
})
