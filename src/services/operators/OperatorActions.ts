/**
 * The room `operators`: the contracts of the command line and the console of operators. Read this file first: what operators may do. Each action is recorded with the name of its operator: one that the ledger carries out, in
 * the transaction of the action; one that it refuses, with the reason.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import type { ActingOperator, ActionRefusal, OperatorAction } from "../../domain/operators/OperatorView.ts"
import { makeSql } from "../sql/operators/SqlOperatorActions.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

export class OperatorActions extends Context.Service<OperatorActions, {
  /**
   * Performs the action. A cancellation has the name and the reason of the operator in its evidence, too.
   *
   * `revision` is the one that the operator saw. If the operation is at another one, the call fails with `StaleOperation` and
   * changes nothing. Without it the call acts on the operation as it is.
   *
   * After `StoreUnavailable` it is unknown whether the action happened: read the operation again. An action that happened is
   * recorded. A refusal may not be.
   */
  readonly perform: (
    action: OperatorAction,
    id: OperationId,
    operator: ActingOperator,
    revision?: number
  ) => Effect.Effect<Operation, ActionRefusal | StoreUnavailable>
  /** Holds all accepted operations (`Holds.holdAll`), and returns how many. `StoreUnavailable` as in `perform`. */
  readonly holdAll: (operator: ActingOperator) => Effect.Effect<number, StoreUnavailable>
  /** Releases all held operations (`Holds.releaseAll`), and returns how many. `StoreUnavailable` as in `perform`. */
  readonly releaseAll: (operator: ActingOperator) => Effect.Effect<number, StoreUnavailable>
}>()("financial-agents-gateway/services/operators/OperatorActions") {
  static readonly layer: Layer.Layer<
    OperatorActions,
    never,
    SqlClient.SqlClient | Digest.Digest | SecureRandom.SecureRandom
  > = Layer.effect(
    OperatorActions,
    Effect.map(makeSql, (actions) => OperatorActions.of(actions))
  )
}
