/**
 * Confirmed statements: proof that the synchronous standby has all that a session has seen. docs/cluster.md explains it.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { confirmation } from "../../services/rules/confirmation.ts"

/**
 * Runs an effect for all that ask at the same time. Calls of one turn of the event loop share a run, and so do all that come while one is
 * under way: theirs begins after it. So no caller gets a result of a run that began before its call. A run belongs to no caller, and the
 * interruption of one does not end it.
 */
export const makeShared = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => {
  let waiting: Array<(result: Effect.Effect<A, E>) => void> = []
  let isUnderWay = false

  const begin = () => {
    const served = waiting
    waiting = []
    Effect.runCallback(effect, {
      onExit: (exit) => {
        const result = Exit.isSuccess(exit) ? Effect.succeed(exit.value) : Effect.failCause(exit.cause)
        for (const resume of served) resume(result)
        if (waiting.length === 0) isUnderWay = false
        else begin()
      }
    })
  }

  return Effect.callback((resume) => {
    waiting.push(resume)
    if (isUnderWay) return
    isUnderWay = true
    setImmediate(begin)
  })
}

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
