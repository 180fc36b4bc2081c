/**
 * The database of a command: the one that a URL names, else an embedded PostgreSQL.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ListClient } from "../services/sql/ListClient.ts"
import { LocalPostgres, type LocalPostgresError } from "./embedded/LocalPostgres.ts"

/** What the command line and the environment say of the database. */
export interface DatabaseOptions {
  readonly databaseUrl: Option.Option<Redacted.Redacted<string>>
  readonly dataDir: string
}

/** How to reach the database. It is the embedded one's lifetime as well. */
export class Database extends Context.Service<Database, {
  readonly isEmbedded: boolean
  /** Where the embedded database keeps its files; null when there is none. */
  readonly dataDirectory: string | null
  readonly connection: PgClient.PgPoolConfig
}>()("financial-agents-gateway/node/Database") {
  static readonly layer = (options: DatabaseOptions): Layer.Layer<Database, LocalPostgresError> =>
    Option.match(options.databaseUrl, {
      onSome: (url) => Layer.succeed(Database, { isEmbedded: false, dataDirectory: null, connection: { url } }),
      onNone: () =>
        Layer.effect(
          Database,
          Effect.map(LocalPostgres, ({ database, dataDirectory, port, socketDirectory, username }) => ({
            isEmbedded: true,
            dataDirectory,
            connection: { host: socketDirectory, port, username, database }
          }))
        ).pipe(Layer.provide(LocalPostgres.layer({ dataDirectory: options.dataDir })))
    })
}

/** One pool for all who are given the same layer, however often they are. */
const pool = (
  settings: PgClient.PgPoolConfig
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError, Database> =>
  Layer.effectContext(
    Effect.flatMap(Database, ({ connection }) =>
      Layer.build(PgClient.layer({ applicationName: "financial-agents-gateway", ...connection, ...settings })))
  )

/**
 * Connections live for seconds: when the other end is gone without a word, whatever is written to one is lost without an
 * error for as long as TCP repeats itself, which is a quarter of an hour, and a shared one is not closed by giving
 * statements up.
 */
const connectionTTL = "30 seconds"

/**
 * How long the server lets a session of a pool go on, in milliseconds. PostgreSQL ends what takes longer, also when the
 * process that asked is stopped or gone.
 */
const limits = (of: { readonly statement: number; readonly lock: number }) => ({
  statement_timeout: String(of.statement),
  lock_timeout: String(of.lock),
  // A process that stops inside a transaction keeps its locks for this long at most.
  idle_in_transaction_session_timeout: "5000"
})

/** Shorter than the time that a request has, so that the server gives a statement up before the request that waits for it. */
const requestLimits = limits({ statement: 1500, lock: 1000 })

/**
 * The session refuses to write, with any statement. It reads an index that is in list order also where PostgreSQL has no
 * statistics of the table (after a restore, say), and would rather sort all operations of an owner. Without `jit`: up to
 * PostgreSQL 17, a plan that breaks such a setting looks expensive enough to be compiled.
 */
export const readerParameters = {
  default_transaction_read_only: "on",
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_sort: "off",
  jit: "off",
  ...requestLimits
}

/**
 * For reads by id, plain lists and verification. Its connections live for as long as they are used: to look at their age
 * with each statement would cost a quarter of the reads. Many statements share a connection, so none of them may be slow, or
 * wait for a lock that others take: migrations alone lock these tables.
 */
export const ReaderPool = pool({ multiplex: true, maxConnections: 4, startupParameters: readerParameters })

/**
 * For filtered lists: see `ListClient`. Each statement has a connection of its own, which is freed when its client goes.
 * There are twice as many as one client may use (`LifecycleOptions.maxListsPerClient`).
 */
export const ListPool = Layer.effect(
  ListClient,
  Effect.map(
    Layer.build(pool({ maxConnections: 8, connectionTTL, startupParameters: readerParameters })),
    (context) => Context.get(context, SqlClient.SqlClient)
  )
)

/** For readiness probes, which must be answered also when the pools of the requests are full. */
export const ProbePool = pool({ maxConnections: 1, connectionTTL, startupParameters: readerParameters })

/** For DPoP proofs that were used. Each request with a proof writes one, and may wait for another that writes the same. */
export const ProofPool = pool({ maxConnections: 8, connectionTTL, startupParameters: requestLimits })

/** For grants that tokens show. Their registration may wait for a revocation, and no other statement for it. */
export const ProvisioningPool = pool({ maxConnections: 4, connectionTTL, startupParameters: requestLimits })

/** For the ledger and administration. Statements may wait for locks, so each has a connection of its own. */
export const WriterPool = pool({
  maxConnections: 10,
  connectionTTL,
  startupParameters: limits({ statement: 10_000, lock: 2000 })
})

/**
 * For migrations. A statement may take long, on a large ledger. It waits for a lock for a few seconds only: reads and
 * acceptances queue behind a lock that waits.
 */
export const MigrationPool = pool({
  maxConnections: 2,
  connectionTTL,
  startupParameters: limits({ statement: 0, lock: 5000 })
})

/**
 * For workers. One connection listens for acceptances. The server gives a statement up before its worker does, so that
 * what a worker gave up is not done behind its back. Statements may wait for the lock of a row, so each has a connection
 * of its own.
 */
export const WorkerPool = pool({
  maxConnections: 16,
  connectionTTL: "10 seconds",
  keepAlive: "10 seconds",
  startupParameters: limits({ statement: 4000, lock: 2000 })
})
