/**
 * Maintenance of the ledger by the processes with workers: marks of changes, counts, and reports to operators.
 * Rescues: what becomes of claims without a holder, and of operations that stay unsettled for too long.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { OperationId } from "../../domain/Operation.ts"
import type { WorkerReport } from "../../domain/operators/FiguresForm.ts"
import type { ReviewTerms } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { HeldAll } from "./Holds.ts"

export class Maintenance extends Context.Service<Maintenance, {
  /**
   * Records how far the changes have come, at most once a second. So the tokens of `OperationFeed` stay valid after a failover
   * that lost nothing of it. The feed of a new timeline begins with its first mark.
   */
  readonly markChanges: Effect.Effect<void, StoreUnavailable>
  /**
   * Merges the counts of `LedgerFigures` that have piled up since the last call: each transition adds one. Several processes may
   * call it at once. In memory it does nothing.
   */
  readonly foldCounts: Effect.Effect<void, StoreUnavailable>
  /**
   * Stores what a process with workers reports of itself, for `LedgerFigures`. Repeat it: operators take a process without a report
   * for gone. In memory it does nothing.
   */
  readonly reportWorker: (report: WorkerReport) => Effect.Effect<void, StoreUnavailable>
  /** Removes the report of a process that stops. */
  readonly forgetWorker: (process_id: string) => Effect.Effect<void, StoreUnavailable>
}>()("financial-agents-gateway/services/queue/Maintenance") {}

/** The version that the workers of this process report. */
export const ProgramVersion = Context.Reference<string>("financial-agents-gateway/services/queue/ProgramVersion", {
  defaultValue: () => "unknown"
})

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

/** Holds all accepted operations in one transaction with a condition. Null: the condition does not hold. */
export type HoldAllIf = (
  condition: Effect.Effect<boolean, SqlError>
) => Effect.Effect<HeldAll | null, StoreUnavailable>

/** What the claims of one process report about the history of the ledger. */
export interface HistoryReports {
  /** One more column of each row of a claim, with a comma before it. A claim returns at least one row. */
  readonly column: string
  /** Runs a claim. Fails if the column shows that its operations may not be sent. */
  readonly claimed: <Row>(
    claim: Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
  ) => Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
  /** Runs every second, beside the claims. */
  readonly watch: Effect.Effect<void, StoreUnavailable>
}

/** Makes the reports of a queue in PostgreSQL. Default: claims report nothing. */
export const LedgerHistory = Context.Reference<
  (holdAllIf: HoldAllIf) => Effect.Effect<HistoryReports, never, SqlClient.SqlClient>
>("financial-agents-gateway/services/queue/LedgerHistory", {
  defaultValue: () => () => Effect.succeed({ column: "", claimed: (claim) => claim, watch: Effect.void })
})
