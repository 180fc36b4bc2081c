import * as Context from "effect/Context"

/**
 * The instant from which on this process sends no byte of the submission under way, in milliseconds of its own wall clock. The worker
 * sets it, because `send_before` is by the clock of the database. Null: there is no worker, and `send_before` counts.
 */
export const SendDeadline: Context.Reference<number | null> = Context.Reference<number | null>(
  "financial-agents-gateway/submission/SendDeadline",
  { defaultValue: () => null }
)
