import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"

/**
 * An instant before the status read under way, by the clock of the database. The reconciler sets it: `send_before` is by the same
 * clock, so a wrong clock of the process makes no "not found" final too early. Null: there is no reconciler.
 */
export const ReadBegin: Context.Reference<DateTime.Utc | null> = Context.Reference<DateTime.Utc | null>(
  "financial-agents-gateway/submission/ReadBegin",
  { defaultValue: () => null }
)
