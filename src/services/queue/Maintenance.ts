/** Maintenance of the ledger by the processes with workers: marks of changes, counts, and reports to operators. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { WorkerReport } from "../../domain/operators/FiguresForm.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

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
