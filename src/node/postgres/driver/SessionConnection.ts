import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

type Transform = Parameters<Connection["execute"]>[2]

const rowsOf = (result: Effect.Effect<PgConnection.Result, SqlError>, transform: Transform) =>
  Effect.map(result, ({ rows }) => transform === undefined ? rows : transform(rows))

/** A session of a pool as Effect's clients see it. */
export class SessionConnection implements Connection {
  readonly session: PgConnection.PgConnection

  constructor(session: PgConnection.PgConnection) {
    this.session = session
  }

  execute(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return rowsOf(this.session.query(text, parameters), transform)
  }

  executeUnprepared(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    return rowsOf(this.session.query(text, parameters, false), transform)
  }

  executeRaw(text: string, parameters: ReadonlyArray<unknown>) {
    return this.session.query(text, parameters)
  }

  executeValues(text: string, parameters: ReadonlyArray<unknown>) {
    return this.session.queryValues(text, parameters)
  }

  executeValuesUnprepared(text: string, parameters: ReadonlyArray<unknown>) {
    return this.session.queryValues(text, parameters, false)
  }

  executeStream(text: string, parameters: ReadonlyArray<unknown>, transform: Transform) {
    const rows = this.session.stream(text, parameters)
    return transform === undefined ? rows : Stream.map(rows, (row) => transform([row])[0]!)
  }
}
