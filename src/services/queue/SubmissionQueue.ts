/**
 * The work of the submission workers, from the claim of an operation to the record of its outcome. The room `queue` has the contracts of
 * worker, rescuer and reconciler, and no others. Read this file first.
 *
 * The database alone coordinates the workers, with row locks, compare-and-set and its own clock. So any number of them may run, on any
 * number of machines.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type {
  IllegalTransition,
  Operation,
  OperationId,
  OperationNotFound,
  StaleOperation
} from "../../domain/Operation.ts"
import type { StillHeld, UnsafeDatabase } from "../../domain/Submission.ts"
import type { MemoryLedger } from "../memory/MemoryLedger.ts"
import { makeMemory } from "../memory/MemorySubmissionQueue.ts"
import { makeSql } from "../sql/queue/SqlSubmissionQueue.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { Claims, Outcomes, ProviderLimits } from "./Claims.ts"
import type { Maintenance, Rescues } from "./Maintenance.ts"
import type { StatusReads } from "./StatusReads.ts"

/** What holds accepted operations, and what releases them. */
export interface Holds {
  /**
   * Checks that the database keeps acknowledged commits, and that the ledger has not moved to another cluster or database. After
   * a move it holds all `accepted` operations, because the original ledger may have submitted them. It treats claims as `holdAll`
   * does. Returns whether it did.
   */
  readonly prepare: Effect.Effect<{ readonly moved: boolean }, UnsafeDatabase | StoreUnavailable>
  /**
   * Holds an `accepted` operation. A free one was never sent, and the hold keeps the proof until a failover or `holdAll`: until then
   * no status is read, and it can be released at once. A held operation stays as it is, so its examination still counts. A claim
   * that comes first wins, and the call then fails with `IllegalTransition`.
   *
   * After `StoreUnavailable` it is unknown whether the operation is held: repeat the call.
   */
  readonly hold: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable>
  /**
   * Holds every `accepted` operation, and returns how many. For a ledger that was restored without a new timeline, such as from
   * a snapshot of its disk.
   *
   * It moves every claim to `indeterminate`, because the restored ledger may lack returns and take-overs. A holder may still send
   * for some minutes, so "not found" at the provider is final only after that.
   *
   * All change tokens expire: see `OperationFeed`.
   */
  readonly holdAll: Effect.Effect<number, StoreUnavailable>
  /**
   * Releases a held operation for the next claim, after an operator made sure that it was never sent. The operator cannot be
   * sure while the claim holder from before the failover may still send it. Until then the call fails with `StillHeld`. An
   * operation that is not held stays as it is.
   */
  readonly release: (
    id: OperationId
  ) => Effect.Effect<Operation, OperationNotFound | StillHeld | IllegalTransition | StoreUnavailable>
  /**
   * Does the same after a status read proved that the provider never received the operation. `send_before` is that of the read.
   * Fails with `StaleOperation` if it differs by now: the operation may have been released, claimed and held again. It also
   * fails while the earlier claim holder may still send the operation. The next read may prove it again.
   */
  readonly releaseUnsent: (
    id: OperationId,
    send_before: DateTime.Utc
  ) => Effect.Effect<void, OperationNotFound | StaleOperation | StoreUnavailable>
  /**
   * Releases all held operations, and returns how many. For a failover that is known to have lost nothing. Acknowledged
   * operations stay held, and those that wait for an approval: each needs a release of its own before a decision counts.
   */
  readonly releaseAll: Effect.Effect<number, StoreUnavailable>
}

/** What worker, rescuer and reconciler ask of the ledger. Applications provide its layer, and call nothing of it. */
export class SubmissionQueue extends Context.Service<
  SubmissionQueue,
  Claims & Outcomes & StatusReads & Holds & Rescues & ProviderLimits & Maintenance
>()(
  "financial-agents-gateway/services/queue/SubmissionQueue"
) {
  static readonly layer: Layer.Layer<SubmissionQueue, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    SubmissionQueue,
    Effect.suspend(() => makeSql)
  )
  static readonly layerMemory: Layer.Layer<SubmissionQueue, never, MemoryLedger | Digest.Digest> = Layer.effect(
    SubmissionQueue,
    Effect.suspend(() => makeMemory)
  )
}
