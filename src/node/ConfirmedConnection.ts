import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { makeConfirm } from "./makeConfirm.ts"
import { SessionConnection } from "./SessionConnection.ts"

type Transform = Parameters<SessionConnection["execute"]>[2]

/**
 * A session whose results are told only after their confirmation: see `makeConfirm`. A transaction is confirmed as a whole, after its
 * COMMIT. A statement fails if its effect is not confirmed, and may have happened all the same.
 */
export class ConfirmedConnection extends SessionConnection {
  private readonly confirm: Effect.Effect<void, SqlError>
  private isInTransaction = false

  constructor(session: PgConnection.PgConnection) {
    super(session)
    this.confirm = makeConfirm(session)
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

  private confirmed<A>(text: string, statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> {
    return Effect.tap(statement, () => {
      if (text.startsWith("BEGIN")) this.isInTransaction = true
      else if (text === "ROLLBACK") this.isInTransaction = false
      else if (text === "COMMIT") {
        this.isInTransaction = false
        return this.confirm
      } else if (!this.isInTransaction) return this.confirm
      return Effect.void
    })
  }
}
