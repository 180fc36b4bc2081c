import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import { SessionConnection } from "../../node/postgres/driver/DriverClient.ts"
import { sqlState } from "../../services/StoreUnavailable.ts"
import { routedConnection } from "../routedConnection.ts"
import { type Confirm, confirmReplication, makeSharedConfirm } from "./confirmReplication.ts"

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
