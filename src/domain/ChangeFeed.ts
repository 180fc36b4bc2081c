/**
 * The change feed: the operations that changed since a token, each in its current state.
 *
 * A change is an acceptance, a transition, or the begin or end of a review: all that changes the public form.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ClientId, PairwiseSubject, ResourceOwner } from "./Grant.ts"
import type { Operation, OperationState, OperationType } from "./Operation.ts"

/** Most characters of a change token. It must fit into the target of a request. @internal */
export const maxChangeToken = 4096

/** A position in the feed, as opaque text. It belongs to one history of the ledger, to its reader and to its filters. */
export const ChangeToken = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_-]+$/u, { expected: "a change token" }),
  Schema.isMaxLength(maxChangeToken)
).pipe(Schema.brand("ChangeToken"))
export type ChangeToken = typeof ChangeToken.Type

/** Which changes to read. No states means all of them; they filter by the current state. */
export interface ChangeQuery {
  readonly states: ReadonlyArray<OperationState>
  readonly type: OperationType | null
  /** Most operations in a page, 1 to 100. */
  readonly page_size: number
  /** Null: from the first operation of the ledger that the grant may see. */
  readonly after: ChangeToken | null
}

/** Whether a page may look at more changes than it returns. @internal */
export const isFiltered = ({ states, type }: ChangeQuery): boolean => states.length > 0 || type !== null

/**
 * Runs a statement that may look at more rows than it returns: one with filters, or after a token that names unfinished
 * transactions. A server lets each client run a few of them at once.
 */
export type RunSlowRead = <A, E, R>(read: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** One page of changes, in the order of the feed. Each operation is in it once, in its current state. */
export interface ChangePage {
  readonly operations: ReadonlyArray<Operation>
  /** The position after this page. */
  readonly next: ChangeToken
  /** Whether more changes are there already. A page may be short, or empty, although more follow. */
  readonly has_more: boolean
}

/** A change of any operation of the ledger, with the names of its owner. */
export interface LedgerChange {
  readonly operation: Operation
  readonly client_id: ClientId
  readonly resource_owner: ResourceOwner
  readonly subject: PairwiseSubject
}

/** One page of changes of the whole ledger. */
export interface LedgerChanges {
  readonly changes: ReadonlyArray<LedgerChange>
  /**
   * Names the oldest transaction that had not finished when later changes were read. Null: none. The same name for minutes means
   * that a transaction hangs.
   */
  readonly unfinished: number | null
  readonly next: ChangeToken
  readonly has_more: boolean
}

/**
 * The token belongs to another history of the ledger. The ledger was restored or moved, or its database failed over. Changes that
 * the token counts as seen may have been lost, so start the feed anew.
 */
export class ChangeTokenExpired extends Schema.TaggedError<ChangeTokenExpired>()("ChangeTokenExpired", {}) {
  override get message() {
    return "the change token belongs to another history of the ledger: start the feed anew"
  }
}

/** No feed issued the token, or it belongs to another reader or to other filters. */
export class InvalidChangeToken extends Schema.TaggedError<InvalidChangeToken>()("InvalidChangeToken", {}) {
  override get message() {
    return "the token is none of this feed, its reader and its filters"
  }
}
