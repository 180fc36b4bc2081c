/** Held operations: what holds accepted operations, and what releases them. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { IllegalTransition, Operation, OperationId, OperationNotFound } from "../../domain/Operation.ts"
import type { StillHeld, UnsafeDatabase } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** How many operations a hold of all changed. */
export interface HeldAll {
  /** Operations that are `accepted`. */
  readonly held: number
  /** Claims that it moved to `indeterminate`. */
  readonly indeterminate: number
}

export class Holds extends Context.Service<Holds, {
  /**
   * Checks that the database keeps acknowledged commits, and that the ledger has not moved to another cluster or database. After
   * a move it holds all `accepted` operations, because the original ledger may have submitted them. It treats claims as `holdAll`
   * does. Returns whether it did.
   */
  readonly prepare: Effect.Effect<{ readonly moved: boolean }, UnsafeDatabase | StoreUnavailable>
  /**
   * Holds an `accepted` operation. A free one was never sent, and the hold keeps the proof until a failover or `holdAll`: until then
   * no status is read, and it can be released at once. Only a `release` ends it: neither an approval nor a proof does. What something else
   * holds gets this hold, too, and keeps its examination. A claim that comes first wins, and the call then fails with `IllegalTransition`.
   *
   * After `StoreUnavailable` it is unknown whether the operation is held: repeat the call.
   */
  readonly hold: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable>
  /**
   * Holds every `accepted` operation. For a ledger that was restored without a new timeline, such as from a snapshot of its disk.
   *
   * It moves every claim to `indeterminate`, because the restored ledger may lack returns and take-overs. A holder may still send
   * for some minutes, so "not found" at the provider is final only after that.
   *
   * All change tokens expire: see `OperationFeed`.
   */
  readonly holdAll: Effect.Effect<HeldAll, StoreUnavailable>
  /**
   * Releases a held operation for the next claim, after an operator made sure that it was never sent. The operator cannot be
   * sure while the claim holder from before the failover may still send it. Until then the call fails with `StillHeld`. An
   * operation that is not held stays as it is. One that waits for an approval waits on, and without a `hold` the call fails.
   */
  readonly release: (
    id: OperationId
  ) => Effect.Effect<Operation, OperationNotFound | StillHeld | IllegalTransition | StoreUnavailable>
  /**
   * Releases all held operations, and returns how many. For a failover that is known to have lost nothing. Acknowledged
   * operations stay held, those of a `hold` or of a late report, and those that wait for an approval: each needs a release of its own.
   */
  readonly releaseAll: Effect.Effect<number, StoreUnavailable>
}>()("financial-agents-gateway/services/queue/Holds") {}
