import * as Effect from "effect/Effect"
import type { Borrower, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { onPrimaryOrStandby } from "../../services/sql/reads/onPrimary.ts"

/** Only a server in recovery can check it. A promoted server fails with SQLSTATE 55000: it may have commits that its primary lacks. */
const onStandby = "(SELECT pg_is_wal_replay_paused()) IS NOT NULL"

/** The statement for a standby. Null: only the primary may serve it. */
export const forStandby = (text: string): string | null =>
  text.includes(onPrimaryOrStandby) ? text.replace(onPrimaryOrStandby, onStandby) : null

type Transform = Parameters<Connection["execute"]>[2]

type Run<A> = (connection: Connection) => Effect.Effect<A, SqlError>

/** Runs the statement of a standby, or else that of the primary. */
type First = <A>(onPrimary: Effect.Effect<A, SqlError>, onStandby: Run<A>) => Effect.Effect<A, SqlError>

/** Chooses a connection for each statement: a standby's if the statement may run there (`forStandby`), or else the primary's. */
export class ReadConnection implements Connection {
  private readonly primary: Borrower
  private readonly first: First

  constructor(primary: Borrower, first: First) {
    this.primary = primary
    this.first = first
  }

  execute(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return this.run(text, (connection, text) => connection.execute(text, parameters, transform))
  }

  executeUnprepared(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return this.run(text, (connection, text) => connection.executeUnprepared(text, parameters, transform))
  }

  executeRaw(text: string, parameters: ReadonlyArray<unknown>) {
    return this.run(text, (connection, text) => connection.executeRaw(text, parameters))
  }

  executeValues(text: string, parameters: ReadonlyArray<unknown>) {
    return this.run(text, (connection, text) => connection.executeValues(text, parameters))
  }

  executeValuesUnprepared(text: string, parameters: ReadonlyArray<unknown>) {
    return this.run(text, (connection, text) => connection.executeValuesUnprepared(text, parameters))
  }

  executeStream(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return Stream.unwrap(Effect.map(this.execute(text, parameters, transform), Stream.fromIterable))
  }

  private run<A>(
    text: string,
    execute: (connection: Connection, text: string) => Effect.Effect<A, SqlError>
  ): Effect.Effect<A, SqlError> {
    const onPrimary = this.primary((connection) => execute(connection, text))
    const standbys = forStandby(text)
    return standbys === null ? onPrimary : this.first(onPrimary, (connection) => execute(connection, standbys))
  }
}
