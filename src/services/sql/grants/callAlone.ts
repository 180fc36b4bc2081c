import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { sqlState } from "../../StoreUnavailable.ts"

/** SQLSTATE of `require_read_committed`. */
const invalidTransactionState = "25000"

/** Milliseconds. Less than `revocationPatience`, so that a revocation outlasts a process that stopped. */
const idleInTransaction = "2000"

/**
 * Runs a statement that locks rows of grants, as a transaction of its own: a process that stops then keeps no lock, because the
 * server ends statement and transaction without it. The statement may wait for a lock, so it has a connection of its own.
 *
 * In a session at another isolation level than READ COMMITTED it needs a transaction. The server ends that transaction if the
 * process is silent for `idleInTransaction`. Inside a transaction of the caller, a failure undoes only this statement.
 */
export const callAlone = <Row extends object>(
  sql: SqlClient.SqlClient,
  text: string,
  parameters: ReadonlyArray<unknown>
) => {
  const statement = sql.unsafe<Row>(text, parameters)
  const alone = Effect.scoped(
    Effect.flatMap(
      sql.reserve,
      (connection) => Effect.provideService(statement, sql.transactionService, [connection, 0])
    )
  )
  const atReadCommitted = Effect.provideService(
    sql.withTransaction(Effect.andThen(
      sql.unsafe("SELECT set_config('idle_in_transaction_session_timeout', $1, true)", [idleInTransaction]),
      statement
    )),
    SqlClient.BeginTransaction,
    "BEGIN ISOLATION LEVEL READ COMMITTED"
  )
  return Effect.flatMap(Effect.serviceOption(sql.transactionService), (outer) =>
    outer._tag === "Some"
      ? sql.withTransaction(statement)
      : Effect.catchIf(alone, (error) => sqlState(error) === invalidTransactionState, () => atReadCommitted))
}
