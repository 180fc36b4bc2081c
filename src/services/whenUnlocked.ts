import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"

/** Pauses that begin at 10 ms and grow to 100 ms, for about a second in all: requests have less than two. */
const patience = Schedule.min([Schedule.exponential("10 millis"), Schedule.spaced("100 millis")])
const attempts = 14

const isLocked = (error: unknown): boolean => isSqlError(error) && error.reason._tag === "LockTimeoutError"

/**
 * Runs a statement that takes its locks with `NOWAIT`, and again while another transaction has one of them. Between two
 * attempts it holds no connection, so a row that stays locked costs the requests for it and no others. After about a second
 * it fails with the `LockTimeoutError` of the last attempt.
 */
export const whenUnlocked = <A>(
  sql: SqlClient.SqlClient,
  statement: Effect.Effect<A, SqlError>
): Effect.Effect<A, SqlError> =>
  Effect.flatMap(Effect.serviceOption(sql.transactionService), (transaction) =>
    // In a transaction of the caller's, a savepoint: the failed attempt would end the whole of it.
    Effect.retry(transaction._tag === "None" ? statement : sql.withTransaction(statement), {
      while: isLocked,
      schedule: patience,
      times: attempts
    }))
