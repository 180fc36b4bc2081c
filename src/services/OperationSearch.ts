/**
 * Reads of operators: operations of any owner, by what an operator knows of them. No HTTP client of the public API reaches it.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { ClientId, ProviderName, ResourceOwner } from "../domain/Grant.ts"
import type { HeldOperations } from "../domain/HeldOperations.ts"
import type { OperationId, OperationNotFound, OperationState } from "../domain/Operation.ts"
import type { OperatorDetail, OperatorSummary, QueueName, UnknownPage } from "../domain/OperatorView.ts"
import { makeSql } from "./sql/SqlOperationSearch.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** Which operations to list. All given members must match. */
export interface OperationFilter {
  /** Empty: any state. */
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
  /**
   * Queues, unsettled states and lists by reference: by the time of the last transition. All other lists, and those of a resource
   * owner: by the last change of the public form, which may be a review. Lists by idempotency key: by client and subject, because
   * a key is meant for one operation of each.
   */
  readonly order: "oldest" | "newest"
  /** 1 to 1,000. */
  readonly limit: number
  /** `next` of the page before. The list must have the same filter and order. */
  readonly after?: string
}

export interface OperatorPage {
  readonly operations: ReadonlyArray<OperatorSummary>
  /** Null: this is the last page. A page may be short, or empty, although more follow: a page looks at a bounded number of rows. */
  readonly next: string | null
}

export class OperationSearch extends Context.Service<OperationSearch, {
  /** All held operations, counted by provider and reason. It reads each of them. */
  readonly held: Effect.Effect<HeldOperations, StoreUnavailable>
  /**
   * One page of operations. It looks at 10,000 rows of one index at most, so its cost does not grow with the ledger. A list by
   * resource owner also asks once for each client. While nothing changes, the pages together have each matching operation once.
   */
  readonly list: (query: OperationListQuery) => Effect.Effect<OperatorPage, UnknownPage | StoreUnavailable>
  /**
   * The operations with this id, idempotency key or provider reference, by the last transition, newest first, 20 at most. The match
   * is exact. Of a key that more than 1,000 operations have it sees 1,000.
   */
  readonly find: (text: string) => Effect.Effect<ReadonlyArray<OperatorSummary>, StoreUnavailable>
  /** History and actions are bounded: the latest 200 of each. */
  readonly detail: (id: OperationId) => Effect.Effect<OperatorDetail, OperationNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/OperationSearch") {
  static readonly layer: Layer.Layer<OperationSearch, never, SqlClient.SqlClient> = Layer.effect(
    OperationSearch,
    Effect.suspend(() => Effect.map(makeSql, (search) => OperationSearch.of(search)))
  )
}
