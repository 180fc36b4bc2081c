/**
 * Reads of operators: operations of any owner, by what an operator knows of them. No HTTP client of the public API reaches it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { OperationId, OperationNotFound } from "../../domain/Operation.ts"
import type { HeldOperations } from "../../domain/operators/HeldOperations.ts"
import type {
  OperationListQuery,
  OperatorDetail,
  OperatorPage,
  OperatorSummary,
  UnknownPage
} from "../../domain/operators/OperatorView.ts"
import { makeSql } from "../sql/operators/SqlOperationSearch.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

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
}>()("financial-agents-gateway/services/operators/OperationSearch") {
  static readonly layer: Layer.Layer<OperationSearch, never, SqlClient.SqlClient> = Layer.effect(
    OperationSearch,
    Effect.map(makeSql, (search) => OperationSearch.of(search))
  )
}
