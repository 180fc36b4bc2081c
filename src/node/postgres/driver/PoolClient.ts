/**
 * The driver's client on a pool whose connections can be counted. The driver's own client (`PgClient.make`) opens its pool itself, and shows
 * neither its connections nor those that wait for one.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type { Borrower, Connection } from "effect/sql/SqlConnection"
import { ConnectionError, SqlError, UnknownError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { ConfirmedConnection } from "../../../cluster/confirmed/ConfirmedConnection.ts"
import { confirmReplication } from "../../../cluster/confirmed/confirmReplication.ts"
import type { StandbyReads } from "../../../cluster/standbys/StandbyReads.ts"
import { openPool, spanAttributesOf } from "./openPool.ts"
import { SessionConnection } from "./SessionConnection.ts"
import { statementTimeout } from "./statementTimeout.ts"

/**
 * Commits. PostgreSQL answers a COMMIT of an aborted transaction with ROLLBACK, and without an error. A COMMIT may wait for standbys, which
 * `statement_timeout` does not end: the client gives up, so that the wait keeps no connection of the pool. It has then happened on this server.
 */
const makeCommit = (config: PgClient.PgPoolConfig) => {
  const patience = statementTimeout(config)
  const bounded = (result: Effect.Effect<unknown, SqlError>) =>
    patience === null
      ? result
      : Effect.timeoutOrElse(result, { duration: patience, orElse: () => Effect.fail(waitsTooLong()) })
  return (connection: Connection): Effect.Effect<void, SqlError> =>
    Effect.flatMap(
      bounded(connection.executeRaw("COMMIT", [])),
      (result) =>
        (result as PgConnection.Result).command === "ROLLBACK"
          ? Effect.fail(rolledBack())
          : Effect.void
    )
}

const rolledBack = () => {
  const message = "COMMIT rolled back an aborted transaction"
  return new SqlError({ reason: new UnknownError({ cause: new Error(message), message, operation: "commit" }) })
}

const waitsTooLong = () => {
  const message = "COMMIT waits for a standby"
  return new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: "commit" }) })
}

/** The fragment of the driver's compiler for a value as `jsonb`. */
const jsonFragment = Statement.custom<Extract<PgClient.PgCustom, { readonly kind: "PgJson" }>>("PgJson")

const make = Effect.fnUntraced(function*(
  config: PgClient.PgPoolConfig,
  name: string,
  mustReplicate: boolean,
  standbys: StandbyReads | null
) {
  const pool = yield* openPool(config, name)
  const connectionOf = (session: PgConnection.PgConnection) =>
    mustReplicate ? new ConfirmedConnection(session, confirmReplication(session)) : new SessionConnection(session)
  const borrower: Borrower = (run) => pool.use((session) => run(connectionOf(session)))
  const client = yield* SqlClient.make({
    acquirer: Effect.map(pool.get, connectionOf),
    borrower: standbys === null ? borrower : standbys.before(borrower),
    transactionAcquirer: Effect.map(pool.reserve, connectionOf),
    compiler: PgClient.makeCompiler(),
    driver: "pg",
    prepareTransactionControls: true,
    commit: makeCommit(config),
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

/**
 * A pool that gives each statement a connection of its own. Metrics name it `name`. With `mustReplicate` it tells each result after its
 * confirmation: see `ConfirmedConnection`. With `standbys`, they run the statements that they may.
 */
export const layer = (
  config: PgClient.PgPoolConfig,
  name: string,
  mustReplicate = false,
  standbys: StandbyReads | null = null
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError> =>
  PgClient.layerFrom(make(config, name, mustReplicate, standbys))
