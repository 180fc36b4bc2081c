import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { port, username } from "./Cluster.ts"
import { LocalPostgresError } from "./LocalPostgresError.ts"

const connect = (socketDirectory: string) =>
  PgConnection.make({
    host: socketDirectory,
    port,
    username,
    database: "postgres",
    applicationName: "financial-agents-gateway embedded",
    connectTimeout: "2 seconds"
  })

/** Whether a server answers a query there. False while it starts, recovers or shuts down. */
export const answers = (socketDirectory: string): Effect.Effect<boolean> =>
  connect(socketDirectory).pipe(
    Effect.flatMap((connection) => connection.query("SELECT 1")),
    Effect.scoped,
    Effect.as(true),
    Effect.orElseSucceed(() => false)
  )

/** Creates the database if it is missing. Several processes may do so at once. */
export const ensureDatabase = (socketDirectory: string, database: string): Effect.Effect<void, LocalPostgresError> =>
  Effect.gen(function*() {
    const connection = yield* connect(socketDirectory)
    const found = yield* connection.query("SELECT 1 FROM pg_database WHERE datname = $1::name", [database])
    if (found.rowCount > 0) return
    yield* connection.query(`CREATE DATABASE "${database.replaceAll(`"`, `""`)}"`, [], false)
  }).pipe(
    Effect.scoped,
    // Another process may create it at the same moment, or hold the template: a retry then finds it.
    Effect.retry({ times: 50, schedule: Schedule.spaced("100 millis") }),
    Effect.mapError((cause) =>
      new LocalPostgresError({ message: `Could not create the database ${database}: ${cause.message}`, cause })
    )
  )
