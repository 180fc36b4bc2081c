/**
 * Reports transactions that hang while the feed steps over them.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** How long a transaction may stay unfinished without a log line, in milliseconds. */
const patience = 60_000

/**
 * Makes the report. It takes the oldest unfinished transaction of each page (`LedgerChanges.unfinished`), and logs one that
 * stays the oldest for a minute, once.
 */
export const makeLongTransactions = () => {
  let oldest: number | null = null
  let since = 0
  let isReported = false
  return (unfinished: number | null): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (unfinished !== oldest) {
        oldest = unfinished
        since = now
        isReported = false
      }
      if (oldest === null || isReported || now - since < patience) return Effect.void
      isReported = true
      return Effect.logWarning(
        "A transaction of the database server has been open for more than a minute. The change feed steps over it, and its own "
          + "changes arrive when it ends. Find it by the oldest xact_start in pg_stat_activity, or in pg_prepared_xacts"
      )
    })
}
