/**
 * Confirmed statements: proof that the synchronous standbys have all that a session has seen. docs/postgresql.md explains it.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { confirmation } from "../services/internal/confirmation.ts"
import { makeShared } from "./makeShared.ts"

/** The statement is done on this server, and may be lost with it. As after a lost connection, its outcome is unknown. */
const notReplicated = () => {
  const message = "no synchronous standby has confirmed the statement"
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: confirmation }) })
}

/** Confirms what a session has seen until then: on the same session, hence on the server that ran the statements. */
export const makeConfirm = (session: PgConnection.PgConnection): Effect.Effect<void, SqlError> =>
  makeShared(Effect.flatMap(
    session.query("CALL confirm_replication()"),
    ({ rows: [row] }) => row?.["confirmed"] === true ? Effect.void : Effect.fail(notReplicated())
  ))
