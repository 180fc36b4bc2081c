/**
 * Figures about the whole ledger, for metrics, the command `status` and the console.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../domain/Grant.ts"
import type { OperationState } from "../domain/Operation.ts"
import { makeSql } from "./sql/SqlLedgerFigures.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

export { maxDueCount } from "./rules/maxDueCount.ts"

/**
 * Conditions that an operation should leave soon. A held operation is in `held` and not in `accepted`. One under review is also in
 * the condition of its state.
 */
export const conditions = ["accepted", "submitting", "submitted", "indeterminate", "held", "under_review"] as const
export type Condition = typeof conditions[number]

/**
 * Work that may be due. `take_over`: of a returned claim. `rescue`: also the rescue of a returned claim of an earlier timeline.
 * `examine`: the status read of a held operation.
 */
export const dueWork = ["claim", "take_over", "rescue", "read_status", "examine"] as const
export type DueWork = typeof dueWork[number]

/** The circuit of a provider in the process of a worker. */
export type CircuitState = "closed" | "half_open" | "open"

/** A process with workers, as it last reported itself. */
export interface SeenWorker {
  /** Chosen by the process when it starts. */
  readonly process_id: string
  /** Its `WORKER_ID`, if it has one. */
  readonly worker_id: string | null
  readonly version: string
  readonly started_at: DateTime.Utc
  readonly seen_at: DateTime.Utc
  /** The circuit of each of its providers. */
  readonly circuits: Readonly<Record<ProviderName, CircuitState>>
  /**
   * By how many milliseconds its clock was proven to be ahead of the clock of the database; negative: behind. 0: they may be equal. Null:
   * it has not compared them, or has an earlier version.
   */
  readonly clock_skew_ms: number | null
}

/** What a process with workers reports of itself. The queue adds `ProgramVersion`, and the database the times. */
export type WorkerReport = Omit<SeenWorker, "version" | "started_at" | "seen_at">

/** Everything but `oldest` and `due` counts every operation of the ledger, as of one snapshot. */
export interface LedgerFiguresNow {
  readonly at: DateTime.Utc
  /** Providers with operations in a state. Counts of 0 are left out. */
  readonly operations: ReadonlyArray<{
    readonly provider: ProviderName
    readonly state: OperationState
    readonly count: number
  }>
  /** Per provider. Each is part of a count in `operations`. */
  readonly held: ReadonlyArray<{ readonly provider: ProviderName; readonly count: number }>
  readonly under_review: ReadonlyArray<{ readonly provider: ProviderName; readonly count: number }>
  /**
   * Since when the oldest operation of the provider has been in its state. When a hold or a review began is not stored. Providers
   * without an operation in the condition are left out.
   */
  readonly oldest: ReadonlyArray<{
    readonly provider: ProviderName
    readonly condition: Condition
    readonly since: DateTime.Utc
  }>
  /**
   * Operations whose next action is due, and since when the first of them has been. At most `maxDueCount` are counted; of `rescue`,
   * the first ones of all providers. If more than `maxDueCount` clients have accepted operations of the provider, `since` is that of
   * the first clients by name.
   */
  readonly due: ReadonlyArray<{
    readonly provider: ProviderName
    readonly work: DueWork
    readonly count: number
    readonly since: DateTime.Utc
  }>
  /** Processes that reported themselves within the last day, the latest first. */
  readonly workers: ReadonlyArray<SeenWorker>
}

/** Transitions of a provider within one interval. */
export interface FlowPoint {
  /** Begin of the interval. */
  readonly at: DateTime.Utc
  readonly provider: ProviderName
  /** Operations that entered the state in the interval. Acceptances enter `accepted`. */
  readonly entered: Readonly<Partial<Record<OperationState, number>>>
  /** Operations in each state at the end of the interval. */
  readonly standing: Readonly<Partial<Record<OperationState, number>>>
}

export class LedgerFigures extends Context.Service<LedgerFigures, {
  /** One statement. Its cost does not grow with the number of operations. */
  readonly now: Effect.Effect<LedgerFiguresNow, StoreUnavailable>
  /**
   * The last `hours` (1 to 168), oldest first: by minute up to 3 hours, otherwise by hour. Intervals in which nothing of a provider
   * changed are left out, apart from the first one.
   */
  readonly flow: (hours: number) => Effect.Effect<ReadonlyArray<FlowPoint>, StoreUnavailable>
}>()("financial-agents-gateway/services/LedgerFigures") {
  /** Use a pool without the planner settings of the readers: the statements aggregate. */
  static readonly layer: Layer.Layer<LedgerFigures, never, SqlClient.SqlClient> = Layer.effect(
    LedgerFigures,
    Effect.suspend(() => Effect.map(makeSql, (figures) => LedgerFigures.of(figures)))
  )
}
