/**
 * Confirmed statements: proof that the synchronous standbys have all that a session has seen. docs/postgresql.md explains it.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { confirmation } from "../services/internal/confirmation.ts"

/** The statement is done on this server, and may be lost with it. As after a lost connection, its outcome is unknown. */
const notReplicated = () => {
  const message = "no synchronous standby has confirmed the statement"
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: confirmation }) })
}

type Resume = (confirmed: Effect.Effect<void, SqlError>) => void

/**
 * Confirms what a session has seen until then. Calls of one turn of the event loop share a confirmation, and so do all that come while
 * one is under way: theirs begins after it. It belongs to no caller, so the interruption of one does not end it.
 */
export const makeConfirm = (session: PgConnection.PgConnection): Effect.Effect<void, SqlError> => {
  // On the same session, hence on the server that ran the statements.
  const confirm = Effect.flatMap(
    session.query("CALL confirm_replication()"),
    ({ rows: [row] }) => row?.["confirmed"] === true ? Effect.void : Effect.fail(notReplicated())
  )
  let waiting: Array<Resume> = []
  let isUnderWay = false

  const begin = () => {
    const served = waiting
    waiting = []
    Effect.runCallback(confirm, {
      onExit: (exit) => {
        for (const resume of served) resume(Exit.isSuccess(exit) ? Effect.void : Effect.failCause(exit.cause))
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
