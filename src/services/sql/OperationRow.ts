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

/** The columns of the public form, of a table or subquery `o`. Reads select no private column, so none can leak. */
export const publicColumns = "o.id, o.type, o.state, o.revision, o.under_review, o.created_at, o.updated_at, "
  + "o.completed_at, o.failure_code, o.failure_message"

export interface OperationRow {
  readonly id: string
  readonly type: string
  readonly state: OperationState
  readonly revision: number
  readonly under_review: boolean
  readonly created_at: Date
  readonly updated_at: Date
  readonly completed_at: Date | null
  readonly failure_code: string | null
  readonly failure_message: string | null
}

/** Does not validate: the server checks every response against the contract. */
export const fromRow = (row: OperationRow): Operation => ({
  id: row.id as OperationId,
  type: row.type,
  state: row.state,
  terminal: isTerminal(row.state),
  submission_uncertain: submissionUncertain(row.state),
  under_review: row.under_review,
  revision: row.revision,
  created_at: DateTime.fromDateUnsafe(row.created_at),
  updated_at: DateTime.fromDateUnsafe(row.updated_at),
  completed_at: row.completed_at === null ? null : DateTime.fromDateUnsafe(row.completed_at),
  failure: row.failure_code === null || row.failure_message === null
    ? null
    : { code: row.failure_code, message: row.failure_message }
})
