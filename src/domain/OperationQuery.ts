/** Lists of operations: what to list, and the pages of the result. */
import type * as DateTime from "effect/DateTime"
import type { IdempotencyKey } from "./Idempotency.ts"
import type { Operation, OperationId, OperationState, OperationType } from "./Operation.ts"

/** The end of a page: the sort values of its last operation. It is a position in the order, not a row. */
export interface OperationCursor {
  readonly created_at: DateTime.Utc
  readonly id: OperationId
}

/** Which operations to list. Bounds are exclusive, null is no bound, and no states means all of them. */
export interface OperationQuery {
  readonly states: ReadonlyArray<OperationState>
  readonly type: OperationType | null
  readonly created_after: DateTime.Utc | null
  readonly created_before: DateTime.Utc | null
  /** Only the operation of this key: one at most. */
  readonly key: IdempotencyKey | null
  /** Operations in a page, 1 to 100. */
  readonly page_size: number
  readonly after: OperationCursor | null
}

/** One page, newest operation first. `next` is null on the last page. */
export interface OperationPage {
  readonly operations: ReadonlyArray<Operation>
  readonly next: OperationCursor | null
}

/**
 * Whether a list may read more rows than it returns. PostgreSQL then plans it with its values. A list by key reads one row, with
 * any other filters.
 */
export const isFiltered = (query: OperationQuery): boolean =>
  query.key === null
  && (query.states.length > 0 || query.type !== null || query.created_after !== null || query.created_before !== null)
