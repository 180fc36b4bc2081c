/**
 * The write side: operations are accepted once for each request binding, and move along the transition table.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import type { GrantIdentity, GrantRefusal, Scope } from "../domain/Grant.ts"
import type { BindingConflict, FinancialRequest, InvalidFinancialRequest } from "../domain/Idempotency.ts"
import type {
  AlreadySettled,
  HistoryEntry,
  IllegalTransition,
  Operation,
  OperationId,
  OperationNotFound,
  Outcome,
  StaleOperation
} from "../domain/Operation.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeMemory } from "./memory/MemoryOperationLedger.ts"
import { makeSql } from "./sql/SqlOperationLedger.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

type Platform = Digest.Digest | SecureRandom.SecureRandom

/** What became of a financial request: its operation, and whether this very call created it. */
export interface Accepted {
  readonly operation: Operation
  readonly created: boolean
}

/**
 * Records what happens to operations. It trusts its caller to know which operation it may move: HTTP clients never
 * reach it.
 */
export class OperationLedger extends Context.Service<OperationLedger, {
  /**
   * Accepts a financial request, at most once for each binding of client, subject and idempotency key, for ever: the
   * same request returns the same operation, another request under the same key is a `BindingConflict`. The grant must
   * be good and have the scope, if one is named, its client must be active and its provider connected.
   *
   * After `StoreUnavailable` nobody knows whether the request was recorded: repeat it with the same key.
   */
  readonly accept: (
    grant: GrantIdentity,
    request: FinancialRequest,
    scope?: Scope
  ) => Effect.Effect<Accepted, GrantRefusal | BindingConflict | InvalidFinancialRequest | StoreUnavailable>
  /**
   * Moves the operation if it is still at `revision` (compare-and-set), and records the evidence in its history.
   * Evidence is what proved the transition, as JSON, or null; leaving `indeterminate` requires an object that is not empty.
   *
   * After `StoreUnavailable` nobody knows whether the move was recorded: read the operation again.
   */
  readonly transition: (
    id: OperationId,
    revision: number,
    to: Outcome,
    evidence: Schema.Json
  ) => Effect.Effect<Operation, OperationNotFound | StaleOperation | IllegalTransition | StoreUnavailable>
  /**
   * Cancels an operation that nobody has claimed yet: once it is `submitting`, a mutation may be on its way, and this is
   * an `IllegalTransition`. So it is while a failover holds the operation, because it may have been sent before. An
   * operation that is cancelled already stays so.
   */
  readonly cancel: (
    id: OperationId,
    evidence: Schema.Json
  ) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable>
  /**
   * Puts an operation under review, or ends the review; its age counts anew from there. Once an operation is settled
   * there is nothing to review.
   */
  readonly review: (
    id: OperationId,
    underReview: boolean
  ) => Effect.Effect<Operation, OperationNotFound | AlreadySettled | StoreUnavailable>
  /** The operation in its public form, whoever owns it. */
  readonly show: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | StoreUnavailable>
  /** Whether nothing was ever accepted. */
  readonly isEmpty: Effect.Effect<boolean, StoreUnavailable>
  /** Everything that ever happened to the operation, oldest first. */
  readonly history: (
    id: OperationId
  ) => Effect.Effect<ReadonlyArray<HistoryEntry>, OperationNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/OperationLedger") {
  static readonly layer: Layer.Layer<OperationLedger, never, SqlClient.SqlClient | Platform> = Layer.effect(
    OperationLedger,
    Effect.suspend(() => Effect.map(makeSql, (ledger) => OperationLedger.of(ledger)))
  )

  static readonly layerMemory: Layer.Layer<OperationLedger, never, MemoryLedger | Platform> = Layer.effect(
    OperationLedger,
    Effect.suspend(() => Effect.map(makeMemory, (ledger) => OperationLedger.of(ledger)))
  )
}
