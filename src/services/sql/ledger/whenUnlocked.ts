import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"

/** Pauses that begin at 10 ms and grow to 100 ms. */
const pauses = Schedule.min([Schedule.exponential("10 millis"), Schedule.spaced("100 millis")])

/** From the first attempt to the start of the last one. A request has less than two seconds. */
const patience = Duration.seconds(1)

const isLocked = (error: unknown): boolean => isSqlError(error) && error.reason._tag === "LockTimeoutError"

/**
 * Runs a statement that takes its locks with `NOWAIT`, and repeats it while another transaction has one of them. Between two
 * attempts it holds no connection, so a locked row delays only the requests for that row. After about a second it fails with
 * the `LockTimeoutError` of the last attempt.
 */
export const whenUnlocked = <A>(
  sql: SqlClient.SqlClient,
  statement: Effect.Effect<A, SqlError>
): Effect.Effect<A, SqlError> =>
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const end = clock.currentTimeMillisUnsafe() + Duration.toMillis(patience)
    const transaction = yield* Effect.serviceOption(sql.transactionService)
    // Inside a transaction of the caller it sets a savepoint. Without one, a failed attempt would end the transaction.
    return yield* Effect.retry(transaction._tag === "None" ? statement : sql.withTransaction(statement), {
      // A wait for another request with the same key ends with the same error, after `lock_timeout`.
      while: (error) => isLocked(error) && clock.currentTimeMillisUnsafe() < end,
      schedule: pauses
    })
  })
