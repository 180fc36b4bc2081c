/** Confirmed statements: proof that the synchronous standby has all that a session has seen. docs/cluster.md explains it. */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { SessionConnection } from "../node/postgres/driver/DriverClient.ts"
import { confirmation, sqlState } from "../services/StoreUnavailable.ts"
import { gatherCalls } from "../submission/gatherCalls.ts"

/** Runs an effect for all that ask at the same time: see `gatherCalls`. No caller gets a result of a run that began before its call. */
export const makeShared = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  gatherCalls<void, A, E>(Context.empty(), (calls) =>
    Effect.map(Effect.exit(effect), (exit) => {
      for (const { answer } of calls) Deferred.doneUnsafe(answer, exit)
    }))()

/** Fails if the standby may lack something that the session has seen until then. */
export type Confirm = Effect.Effect<void, SqlError>

/** The statement is done on this server, and may be lost with it. As after a lost connection, its outcome is unknown. */
const notReplicated = (gap: unknown) => {
  const message = `no synchronous standby has confirmed the statement: ${gap}`
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: confirmation }) })
}

/** Confirms on the same session, hence on the server that ran the statements. */
export const confirmReplication = (session: PgConnection.PgConnection): Confirm =>
  Effect.flatMap(
    session.query("CALL confirm_replication()"),
    ({ rows: [row] }) => row?.["gap"] === null ? Effect.void : Effect.fail(notReplicated(row?.["gap"]))
  )

/** The same for a session whose statements share the connection: see `makeShared`. */
export const makeSharedConfirm = (session: PgConnection.PgConnection): Confirm =>
  makeShared(confirmReplication(session))

/**
 * A session whose results are told only after their confirmation: see `confirmReplication`. A transaction is confirmed as a whole, after
 * its COMMIT or ROLLBACK. Errors of the server are confirmed as well, because they depend on what it shows. An unconfirmed
 * statement fails, and may have happened all the same.
 */
export const confirmedConnection = (session: PgConnection.PgConnection, confirm: Confirm): Connection => {
  const connection = new SessionConnection(session)
  let isInTransaction = false
  const confirmOutside = Effect.suspend(() => isInTransaction ? Effect.void : confirm)
  return routedConnection((text, execute) =>
    execute(connection, text).pipe(
      Effect.tap(() => {
        // Effect's clients begin and end transactions with these texts, and those of `BeginTransaction` begin with BEGIN.
        if (text.startsWith("BEGIN")) isInTransaction = true
        else if (text === "COMMIT" || text === "ROLLBACK") isInTransaction = false
        return confirmOutside
      }),
      Effect.tapError((error) => {
        // A COMMIT that fails ends its transaction, too.
        if (text === "COMMIT") isInTransaction = false
        // An error without a state is one of the connection.
        return sqlState(error) === "" ? Effect.void : confirmOutside
      })
    )
  )
}

/** Connections whose results are confirmed, for `SessionResults`. Statements that share a session share its confirmations. */
export const confirmedResults = (session: PgConnection.PgConnection, isShared: boolean) =>
  confirmedConnection(session, isShared ? makeSharedConfirm(session) : confirmReplication(session))

/** Runs a statement: `execute` on a connection, with this text or another one. */
export type Route = <A>(
  text: string,
  execute: (connection: Connection, text: string) => Effect.Effect<A, SqlError>
) => Effect.Effect<A, SqlError>

/** A connection that leaves each statement to `route`. A stream has all its rows in memory. */
export const routedConnection = (route: Route): Connection => {
  const execute: Connection["execute"] = (text, parameters, transform) =>
    route(text, (connection, text) => connection.execute(text, parameters, transform))
  return {
    execute,
    executeUnprepared: (text, parameters, transform) =>
      route(text, (connection, text) => connection.executeUnprepared(text, parameters, transform)),
    executeRaw: (text, parameters) => route(text, (connection, text) => connection.executeRaw(text, parameters)),
    executeValues: (text, parameters) => route(text, (connection, text) => connection.executeValues(text, parameters)),
    executeValuesUnprepared: (text, parameters) =>
      route(text, (connection, text) => connection.executeValuesUnprepared(text, parameters)),
    executeStream: (text, parameters, transform) =>
      Stream.unwrap(Effect.map(execute(text, parameters, transform), Stream.fromIterable))
  }
}
