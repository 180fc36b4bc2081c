/**
 * The write side: operations are accepted once for each request binding, and move along the transition table.
 *
 * The room `services`: the contracts of the stored data, one class a file. Read this file first.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import type { LimitRefusal } from "../domain/AuthorizationDetails.ts"
import type { GrantIdentity, GrantRefusal, Scope } from "../domain/Grant.ts"
import {
  BindingConflict,
  FinancialRequest,
  IdempotencyKey,
  InvalidFinancialRequest,
  type RequestBinding
} from "../domain/Idempotency.ts"
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
import type { StillHeld } from "../domain/Submission.ts"
import type { Acceptance, Accepted } from "./Acceptance.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeMemory } from "./memory/MemoryOperationLedger.ts"
import { makeSql } from "./sql/ledger/SqlOperationLedger.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

export { BindingConflict, FinancialRequest, IdempotencyKey, InvalidFinancialRequest }
export { layerProviderPayloads, ProviderPayloads } from "./ProviderPayloads.ts"
export type { Accepted }

// A name of its own: declarations of applications cannot name a type of a module that is not public.
type Platform = Digest.Digest | SecureRandom.SecureRandom

/**
 * Records acceptances and transitions of operations. It does not check which operations its caller may move: no HTTP client
 * reaches it.
 */
export class OperationLedger extends Context.Service<OperationLedger, {
  /**
   * Accepts a financial request, at most once for each request binding (client, subject and idempotency key), for ever. The same
   * request returns the same operation, and another request under the same key fails with `BindingConflict`. So does
   * the same request through another provider connection. The grant must
   * be live and have the scope, if one is given, its client must be active and its provider connection connected.
   *
   * Fails with `InvalidFinancialRequest` if the provider of the grant declares payloads (`ProviderPayloads`) and this is
   * none of them. This check applies to new operations only: a repetition returns its operation also after the schemas
   * have changed.
   *
   * Fails with a `LimitRefusal` if the limits of the grant or of its credential do not permit the operation. An accepted operation reserves
   * its amount, and keeps it unless it becomes `failed` or `cancelled`. A repetition reserves nothing, and is never refused by a limit.
   *
   * After `StoreUnavailable` it is unknown whether the request was recorded: repeat it with the same key.
   */
  readonly accept: (
    grant: GrantIdentity,
    request: FinancialRequest,
    scope?: Scope
  ) => Effect.Effect<
    Accepted,
    GrantRefusal | BindingConflict | InvalidFinancialRequest | LimitRefusal | StoreUnavailable
  >
  /**
   * Accepts many requests with one grant in one statement and one commit, and yields the result of each, in their order. The
   * results are those of `accept` for one request after the other: within the batch, too, the first request of a key creates the
   * operation, an equal one returns it, and another one gets a `BindingConflict`. A refused request does not affect the others.
   *
   * A refusal of the grant, and `StoreUnavailable`, concern all requests, so the call fails with them. After `StoreUnavailable`
   * it is unknown whether the requests were recorded: repeat the same ones with the same keys.
   *
   * One statement takes up to 500 requests, and up to 4 MiB of payloads: it records all acceptable requests or none. A larger
   * batch becomes several statements, one after the other. If the call fails then, the earlier statements stay recorded. If
   * the database refuses a statement for any other reason, each of its requests is accepted alone, and the defect is the result
   * of the refused one. The operations of one batch have no order among themselves.
   */
  readonly acceptAll: (
    grant: GrantIdentity,
    requests: ReadonlyArray<FinancialRequest>,
    scope?: Scope
  ) => Effect.Effect<ReadonlyArray<Acceptance>, GrantRefusal | StoreUnavailable>
  /**
   * Moves the operation if it is still at `revision` (compare-and-set), and records the evidence in its history. Evidence is
   * JSON that justifies the transition, or null. To leave `indeterminate` requires an object that is not empty.
   *
   * After `StoreUnavailable` it is unknown whether the move was recorded: read the operation again.
   */
  readonly transition: (
    id: OperationId,
    revision: number,
    to: Outcome,
    evidence: Schema.Json
  ) => Effect.Effect<Operation, OperationNotFound | StaleOperation | IllegalTransition | StoreUnavailable>
  /**
   * Cancels an operation that was provably never sent, and that no worker may send: an `accepted` one that is not held, or that was
   * held by `Holds.hold` before any claim, and one whose claim was returned. Every other one fails with `IllegalTransition`. So does
   * one whose claim or take-over a failover may have lost.
   *
   * An `accepted` operation becomes `cancelled`. One whose claim was returned becomes `failed` with the code `cancelled_unsent`,
   * because no transition leads from `submitting` to `cancelled`. A repetition changes nothing.
   */
  readonly cancel: (
    id: OperationId,
    evidence: Schema.Json
  ) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable>
  /**
   * Puts an operation under review, or ends the review. The age that begins the next review counts from the end. Fails with
   * `AlreadySettled` once the operation is settled. While it waits for an approval, only the decision ends the review: `StillHeld`.
   */
  readonly review: (
    id: OperationId,
    underReview: boolean
  ) => Effect.Effect<Operation, OperationNotFound | AlreadySettled | StillHeld | StoreUnavailable>
  /** The operation in its public form, of any owner. */
  readonly show: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | StoreUnavailable>
  /** The operation of a request binding, or null if the ledger has accepted no such request. */
  readonly bound: (binding: RequestBinding) => Effect.Effect<Operation | null, StoreUnavailable>
  /**
   * Why the last worker that claimed the operation returned it without sending a byte. Null: no worker has, or another one
   * has taken it over since.
   */
  readonly returnReason: (id: OperationId) => Effect.Effect<string | null, OperationNotFound | StoreUnavailable>
  /** Whether the ledger has no operation. */
  readonly isEmpty: Effect.Effect<boolean, StoreUnavailable>
  /** The acceptance and all transitions of the operation, oldest first. */
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
