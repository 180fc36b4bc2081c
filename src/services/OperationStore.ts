/** The read side: the operations that a grant may see. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { RemainingLimit } from "../domain/AuthorizationDetails.ts"
import type { GrantId, GrantIdentity, GrantRefusal } from "../domain/Grant.ts"
import type { MalformedOperation, Operation, OperationId, OperationNotFound } from "../domain/Operation.ts"
import type { OperationPage, OperationQuery } from "../domain/OperationQuery.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeStore } from "./memory/MemoryReads.ts"
import { makeSql } from "./sql/reads/SqlOperationStore.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/**
 * Reads for a grant. Each call is one statement that checks grant, client, scope, provider connection and ownership, in this
 * order and in one snapshot. A read that starts after the commit of a revocation never succeeds. `MalformedOperation`: a stored value is
 * none of an operation. The encoder of a response checks the rest of the contract.
 */
export class OperationStore extends Context.Service<OperationStore, {
  /** Fails with `OperationNotFound` for an unknown id and for the id of a foreign operation alike. */
  readonly find: (
    grant: GrantIdentity,
    id: OperationId
  ) => Effect.Effect<Operation, GrantRefusal | OperationNotFound | MalformedOperation | StoreUnavailable>
  /**
   * Lists by `created_at` descending, then `id` descending. The cost depends on the page, and not on the number of operations of
   * the owner. With a key, it finds the operation of the grant's client and subject that was recorded under this key.
   */
  readonly list: (
    grant: GrantIdentity,
    query: OperationQuery
  ) => Effect.Effect<OperationPage, GrantRefusal | MalformedOperation | StoreUnavailable>
  /** What remains of each limit of the grant and of its credential, in their order. */
  readonly limits: (
    grant: GrantIdentity
  ) => Effect.Effect<ReadonlyArray<RemainingLimit>, GrantRefusal | StoreUnavailable>
  /** Which of these grants may not read now. For responses that wait: they end when their grant is refused. */
  readonly refused: (
    grants: ReadonlyArray<GrantIdentity>
  ) => Effect.Effect<ReadonlyArray<GrantId>, StoreUnavailable>
}>()("financial-agents-gateway/services/OperationStore") {
  static readonly layer: Layer.Layer<OperationStore, never, SqlClient.SqlClient> = Layer.effect(
    OperationStore,
    Effect.map(makeSql, (store) => OperationStore.of(store))
  )

  static readonly layerMemory: Layer.Layer<OperationStore, never, MemoryLedger> = Layer.effect(
    OperationStore,
    Effect.map(makeStore, (store) => OperationStore.of(store))
  )
}
