/** What an acceptance answers: to one request, and to each request of a batch. */
import type * as Exit from "effect/Exit"
import type { LimitRefusal } from "../domain/AuthorizationDetails.ts"
import type { BindingConflict, InvalidFinancialRequest } from "../domain/Idempotency.ts"
import type { Operation } from "../domain/Operation.ts"

/** The result of an acceptance: the operation, and whether this call created it. */
export interface Accepted {
  readonly operation: Operation
  readonly created: boolean
}

/**
 * The result of one request of a batch: what `accept` answers to it. It is an `Exit`, because a defect may concern one request
 * alone, such as a schema of its payload that dies.
 */
export type Acceptance = Exit.Exit<Accepted, RequestRefusal>

/** Why one request is refused, where its grant is good. */
export type RequestRefusal = BindingConflict | InvalidFinancialRequest | LimitRefusal
