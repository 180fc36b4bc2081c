/** Rescues: what becomes of claims without a holder, and of operations that stay unsettled for too long. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { OperationId } from "../../domain/Operation.ts"
import type { ReviewTerms } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

export class Rescues extends Context.Service<Rescues, {
  /**
   * Moves up to `limit` stale `submitting` operations to `indeterminate`, and to no other state. Returns their ids.
   *
   * A returned claim is not stale, because nothing was sent. It is stale after a change of the timeline, which may have lost
   * a take-over. After such a change `send_before` of each rescued operation is set anew, five minutes or more ahead: until
   * then the worker of the lost take-over may send, and the provider cannot prove that it never receives the operation.
   */
  readonly rescue: (limit: number) => Effect.Effect<ReadonlyArray<OperationId>, StoreUnavailable>
  /**
   * Moves all held claims of a worker to `indeterminate`, and returns their number. A worker that starts calls it with its own
   * id, before its first claim: the process that had the id before is dead, so a wait for `rescue_after` protects nothing.
   *
   * `indeterminate` is true at any time, because a byte may have left. The operation is never sent again. Returned claims
   * stay as they are.
   */
  readonly rescueClaimsOf: (worker: string) => Effect.Effect<number, StoreUnavailable>
  /**
   * Puts up to `limit` unsettled operations of these ages under review, even if their next action is not due. Held claims are
   * left out, because the rescuer ends them. Returns their number.
   */
  readonly reviewAged: (limit: number, terms: ReviewTerms) => Effect.Effect<number, StoreUnavailable>
  /** Cancels up to `limit` operations whose approval was not decided in time, and returns their number. */
  readonly expireApprovals: (limit: number) => Effect.Effect<number, StoreUnavailable>
}>()("financial-agents-gateway/services/queue/Rescues") {}
