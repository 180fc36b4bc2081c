/**
 * Figures about the whole ledger, for metrics, the command `status` and the console.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { FlowPoint, LedgerFiguresNow } from "../../domain/operators/FiguresForm.ts"
import { makeSql } from "../sql/operators/SqlLedgerFigures.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

export class LedgerFigures extends Context.Service<LedgerFigures, {
  /** One statement. Its cost does not grow with the number of operations. */
  readonly now: Effect.Effect<LedgerFiguresNow, StoreUnavailable>
  /**
   * The last `hours` (1 to 168), oldest first: by minute up to 3 hours, otherwise by hour. Intervals in which nothing of a provider
   * changed are left out, apart from the first one.
   */
  readonly flow: (hours: number) => Effect.Effect<ReadonlyArray<FlowPoint>, StoreUnavailable>
}>()("financial-agents-gateway/services/operators/LedgerFigures") {
  /** Use a pool without the planner settings of the readers: the statements aggregate. */
  static readonly layer: Layer.Layer<LedgerFigures, never, SqlClient.SqlClient> = Layer.effect(
    LedgerFigures,
    Effect.map(makeSql, (figures) => LedgerFigures.of(figures))
  )
}
