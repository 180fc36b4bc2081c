import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

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
