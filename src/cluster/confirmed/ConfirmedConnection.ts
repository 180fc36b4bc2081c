import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { SessionConnection } from "../../node/postgres/driver/DriverClient.ts"
import { sqlState } from "../../services/StoreUnavailable.ts"
import { type Confirm, confirmReplication, makeSharedConfirm } from "./confirmReplication.ts"

type Transform = Parameters<SessionConnection["execute"]>[2]

/**
 * A session whose results are told only after their confirmation: see `confirmReplication`. A transaction is confirmed as a whole, after
 * its COMMIT or ROLLBACK. Errors of the server are confirmed as well, because they depend on what it shows. An unconfirmed
 * statement fails, and may have happened all the same.
 */
export class ConfirmedConnection extends SessionConnection {
  private readonly confirm: Confirm
  private isInTransaction = false

  constructor(session: PgConnection.PgConnection, confirm: Confirm) {
    super(session)
    this.confirm = confirm
  }

  override execute(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return this.confirmed(text, super.execute(text, parameters, transform))
  }

  override executeUnprepared(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return this.confirmed(text, super.executeUnprepared(text, parameters, transform))
  }

  override executeRaw(text: string, parameters: ReadonlyArray<unknown>) {
    return this.confirmed(text, super.executeRaw(text, parameters))
  }

  override executeValues(text: string, parameters: ReadonlyArray<unknown>) {
    return this.confirmed(text, super.executeValues(text, parameters))
  }

  override executeValuesUnprepared(text: string, parameters: ReadonlyArray<unknown>) {
    return this.confirmed(text, super.executeValuesUnprepared(text, parameters))
  }

  /** All rows come after the confirmation, so it keeps them in memory. */
  override executeStream(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return Stream.unwrap(Effect.map(this.execute(text, parameters, transform), Stream.fromIterable))
  }

  /** Effect's clients begin and end transactions with these texts, and those of `BeginTransaction` begin with BEGIN. */
  private confirmed<A>(text: string, statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> {
    const confirmOutside = Effect.suspend(() => this.isInTransaction ? Effect.void : this.confirm)
    return statement.pipe(
      Effect.tap(() => {
        if (text.startsWith("BEGIN")) this.isInTransaction = true
        else if (text === "COMMIT" || text === "ROLLBACK") this.isInTransaction = false
        return confirmOutside
      }),
      Effect.tapError((error) => {
        // A COMMIT that fails ends its transaction, too.
        if (text === "COMMIT") this.isInTransaction = false
        // An error without a state is one of the connection.
        return sqlState(error) === "" ? Effect.void : confirmOutside
      })
    )
  }
}

/** Connections whose results are confirmed, for `SessionResults`. Statements that share a session share its confirmations. */
export const confirmedResults = (session: PgConnection.PgConnection, isShared: boolean) =>
  new ConfirmedConnection(session, isShared ? makeSharedConfirm(session) : confirmReplication(session))
