/**
 * Reads of operators: operations of any owner, by what an operator knows of them. No HTTP client of the public API reaches it.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { ClientId, ProviderName, ResourceOwner } from "../domain/Grant.ts"
import type { OperationId, OperationNotFound, OperationState } from "../domain/Operation.ts"
import type { OperatorDetail, OperatorSummary, QueueName } from "../domain/OperatorView.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** Which operations to list. All given members must match. */
export interface OperationFilter {
  readonly states?: ReadonlyArray<OperationState>
  readonly queue?: QueueName
  readonly provider?: ProviderName
  readonly client_id?: ClientId
  readonly resource_owner?: ResourceOwner
  readonly idempotency_key?: string
  readonly reference?: string
  /** In its state since this instant, or for longer. */
  readonly unchanged_since?: DateTime.Utc
}

export interface OperationListQuery extends OperationFilter {
  /** By the time of the last transition. */
  readonly order: "oldest" | "newest"
  /** 1 to 1,000. */
  readonly limit: number
  /** `next` of the page before. */
  readonly after?: string
}

export interface OperatorPage {
  readonly operations: ReadonlyArray<OperatorSummary>
  /** Null: this is the last page. A page may be short, or empty, although more follow: a page looks at a bounded number of rows. */
  readonly next: string | null
}

export class OperationSearch extends Context.Service<OperationSearch, {
  /** One page of operations. Its cost does not grow with the ledger. */
  readonly list: (query: OperationListQuery) => Effect.Effect<OperatorPage, StoreUnavailable>
  /** The operations with this id, idempotency key or provider reference, newest first, 20 at most. The match is exact. */
  readonly find: (text: string) => Effect.Effect<ReadonlyArray<OperatorSummary>, StoreUnavailable>
  readonly detail: (id: OperationId) => Effect.Effect<OperatorDetail, OperationNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/OperationSearch") {}
