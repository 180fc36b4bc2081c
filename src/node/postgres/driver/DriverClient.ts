/**
 * The one client on the driver's pools. The driver's own client (`PgClient.make`) opens its pool itself, so it shows neither its connections
 * nor those that wait for one, and it cannot check results before they are told.
 *
 * The room `node/postgres/driver`: all that touches the driver. Read this file first.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { Borrower, Connection } from "effect/sql/SqlConnection"
import { ConnectionError, isSqlError, SqlError, UnknownError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { nameSetting } from "../../../services/StoreUnavailable.ts"
import type { Database } from "../Database.ts"
import { openPool, statementTimeout } from "./openPool.ts"

/**
 * Which servers may run the reads of a pool of this name and these settings: a layer of its `Lender`. Default: the server of the pool alone.
 */
export const ReadServers = Context.Reference<
  (name: string, settings: PgClient.PgPoolConfig) => Layer.Layer<never, SqlError, Database>
>("financial-agents-gateway/node/postgres/driver/ReadServers", { defaultValue: () => () => Layer.empty })

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

/**
 * What runs after each statement of a session, before its result is told. `isShared`: statements of others run on the session at the same time.
 * Default: nothing.
 */
export const SessionResults = Context.Reference<
  (session: PgConnection.PgConnection, isShared: boolean) => Connection
>("financial-agents-gateway/node/postgres/driver/SessionResults", {
  defaultValue: () => (session) => new SessionConnection(session)
})

/** Lends connections to the statements outside of transactions. Default: those of the pool. */
export const Lender = Context.Reference<(own: Borrower) => Borrower>(
  "financial-agents-gateway/node/postgres/driver/Lender",
  { defaultValue: () => (own) => own }
)

/**
 * Compiles each statement anew. Entries of a long-lived `WeakMap` stay until a major collection, so every read would grow the old generation.
 *
 * Workaround for effect 4.1.0, `sql/Statement.ts`: `CompilerProto.compile` keeps each statement in `statementCache`, although it runs once.
 * `DriverClient.test.ts` ("would change both with the driver's own client") fails once it does not.
 */
const compiler: Statement.Compiler = {
  dialect: "pg",
  compile: (statement, withoutTransform) => {
    const [segment] = statement.segments
    return statement.segments.length === 1 && segment?._tag === "Literal"
      ? [segment.value, segment.params ?? []]
      : PgClient.makeCompiler().compile(statement, withoutTransform)
  },
  get withoutTransform() {
    return compiler
  }
}

/**
 * Commits. PostgreSQL answers a COMMIT of an aborted transaction with ROLLBACK, and without an error. A COMMIT may wait for standbys, which
 * `statement_timeout` does not end: the client gives up, so that the wait keeps no connection of the pool. It has then happened on this server.
 * `commit` of the driver's `PgClient.ts` waits without limit.
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
      (result) => (result as PgConnection.Result).command === "ROLLBACK" ? Effect.fail(rolledBack()) : Effect.void
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

/** One connection for each session: its statements share the check of their results. */
const oncePerSession = (connect: (session: PgConnection.PgConnection) => Connection) => {
  const connections = new WeakMap<PgConnection.PgConnection, Connection>()
  return (session: PgConnection.PgConnection): Connection => {
    const known = connections.get(session)
    if (known !== undefined) return known
    const connection = connect(session)
    connections.set(session, connection)
    return connection
  }
}

/** The attributes of the driver's own client. */
const spanAttributesOf = (
  { database, host, port, username }: PgClient.PgPoolConfig
): ReadonlyArray<readonly [string, unknown]> => [
  ["db.system.name", "postgresql"],
  ["db.namespace", database ?? username ?? "postgres"],
  ["server.address", host ?? "localhost"],
  ["server.port", port ?? 5432]
]

/** Opens a pool whose failures name the setting. */
const openNamed = Effect.fnUntraced(function*(config: PgClient.PgPoolConfig, name: string, setting: string) {
  const named = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.mapError(effect, (error) => {
      if (isSqlError(error)) nameSetting(error, setting)
      return error
    })
  const pool = yield* named(openPool(config, name))
  return {
    ...pool,
    get: named(pool.get),
    reserve: named(pool.reserve),
    use: (run) => named(pool.use(run))
  } satisfies PgPool.PgPool
})

const make = Effect.fnUntraced(function*(config: PgClient.PgPoolConfig, name: string, setting?: string) {
  const pool = yield* setting === undefined ? openPool(config, name) : openNamed(config, name, setting)
  const lend = yield* Lender
  const connect = yield* SessionResults
  const connectionOf = config.multiplex === true
    ? oncePerSession((session) => connect(session, true))
    : (session: PgConnection.PgConnection) => connect(session, false)
  const client = yield* SqlClient.make({
    acquirer: Effect.map(pool.get, connectionOf),
    borrower: lend((run) => pool.use((session) => run(connectionOf(session)))),
    transactionAcquirer: Effect.map(pool.reserve, connectionOf),
    compiler,
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
 * A client on a pool of its own, which metrics name `name`. Each statement has a connection of its own. With `multiplex`, statements share
 * connections, and start when the event loop has read all input that is ready. A transaction always has a connection of its own, and its
 * statements start at once. Failures to connect name the `setting` that has the URL.
 */
export const layer = (
  config: PgClient.PgPoolConfig,
  name: string,
  setting?: string
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError> => PgClient.layerFrom(make(config, name, setting))

/** The type `timestamptz` in `pg_type`. */
const timestamptz = 1184

/** PostgreSQL counts microseconds from 2000-01-01. */
const epoch = Date.UTC(2000, 0)

const infinity = { high: 0x7fffffff, low: 0xffffffff }
const minusInfinity = { high: -0x80000000, low: 0 }

/** Milliseconds since the epoch; infinite for `infinity` and `-infinity`. */
const readMillis = (bytes: Uint8Array, at: number): number => {
  const high = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
  const low = ((bytes[at + 4]! << 24) | (bytes[at + 5]! << 16) | (bytes[at + 6]! << 8) | bytes[at + 7]!) >>> 0
  if (high === infinity.high && low === infinity.low) return Number.POSITIVE_INFINITY
  if (high === minusInfinity.high && low === minusInfinity.low) return Number.NEGATIVE_INFINITY
  // 2^32 microseconds are 4,294,967 milliseconds and 296 microseconds. All microseconds in one number would not be exact.
  return high * 4_294_967 + Math.floor((high * 296 + low) / 1000) + epoch
}

/**
 * Makes a registry for the driver that reads timestamps of PostgreSQL as milliseconds since the epoch. A page of 100 operations has up to
 * 300, and a `Date` for each would be a tenth of its garbage. Parameters that are a `Date` stay as they are.
 *
 * `timestampCodec` in `PgTypes.ts` of @effect/sql-pg 4.0.5 makes a `Date`. `epochTimestamps.test.ts` compares both.
 */
export const epochTimestamps = (): PgTypes.Registry => {
  const registry = PgTypes.makeRegistry()
  registry.register<unknown>(timestamptz, {
    encode: (value) => PgTypes.encode(value, timestamptz),
    decode: (bytes) => Result.succeed(readMillis(bytes, 0)),
    read: (bytes, at) => Result.succeed(readMillis(bytes, at))
  })
  return registry
}
