/**
 * The driver's client on a pool whose connections can be counted. The driver's own client (`PgClient.make`) opens its pool itself, and shows
 * neither its connections nor those that wait for one.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { SqlError, UnknownError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { openPool, spanAttributesOf } from "./openPool.ts"
import { SessionConnection } from "./SessionConnection.ts"

/** PostgreSQL answers a COMMIT of an aborted transaction with ROLLBACK, and without an error. */
const commit = (connection: Connection): Effect.Effect<void, SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    (result as PgConnection.Result).command === "ROLLBACK"
      ? Effect.fail(
        new SqlError({
          reason: new UnknownError({
            cause: new Error("COMMIT rolled back an aborted transaction"),
            message: "COMMIT rolled back an aborted transaction",
            operation: "commit"
          })
        })
      )
      : Effect.void)

/** The fragment of the driver's compiler for a value as `jsonb`. */
const jsonFragment = Statement.custom<Extract<PgClient.PgCustom, { readonly kind: "PgJson" }>>("PgJson")

const make = Effect.fnUntraced(function*(config: PgClient.PgPoolConfig, name: string) {
  const pool = yield* openPool(config, name)
  const connectionOf = (session: PgConnection.PgConnection) => new SessionConnection(session)
  const client = yield* SqlClient.make({
    acquirer: Effect.map(pool.get, connectionOf),
    borrower: (run) => pool.use((session) => run(connectionOf(session))),
    transactionAcquirer: Effect.map(pool.reserve, connectionOf),
    compiler: PgClient.makeCompiler(),
    driver: "pg",
    prepareTransactionControls: true,
    commit,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    spanAttributes: spanAttributesOf(config)
  })
  return Object.assign(client, {
    [PgClient.TypeId]: PgClient.TypeId,
    config,
    json: (value: unknown) => Statement.fragment([jsonFragment(value, undefined, undefined)]),
    listen: (channel: string) => Effect.flatMap(pool.reserve, (session) => session.listen(channel)),
    notify: (channel: string, payload: string) => Effect.asVoid(client`SELECT pg_notify(${channel}, ${payload})`)
  })
})

/** A pool that gives each statement a connection of its own. Metrics name it `name`. */
export const layer = (
  config: PgClient.PgPoolConfig,
  name: string
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError> => PgClient.layerFrom(make(config, name))
