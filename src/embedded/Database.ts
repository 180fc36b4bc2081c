/**
 * The database of a command: the one that a URL names, else an embedded PostgreSQL.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { LocalPostgres, type LocalPostgresError } from "./LocalPostgres.ts"

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
}>()("financial-agents-gateway/embedded/Database") {
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
 * For reads. The session refuses to write, whatever it is asked, and gives up on a statement before the request that
 * waits for it does. Its connections live for as long as they are used: to look at their age with each statement would
 * cost a quarter of the reads.
 */
export const ReaderPool = pool({
  multiplex: true,
  maxConnections: 4,
  startupParameters: { default_transaction_read_only: "on", statement_timeout: "1500" }
})

/** For proofs that were used, which each request with DPoP writes. */
export const ProofPool = pool({
  multiplex: true,
  maxConnections: 2,
  connectionTTL,
  startupParameters: { statement_timeout: "1500" }
})

/** For grants that tokens show: their registration may have to wait for a revocation, and nobody else for it. */
export const FirstSightPool = pool({
  multiplex: true,
  maxConnections: 2,
  connectionTTL,
  startupParameters: { statement_timeout: "1500" }
})

/** For migrations, administration and the ledger. */
export const WriterPool = pool({ multiplex: true, maxConnections: 4, connectionTTL })

/**
 * For workers. One connection listens for acceptances. The server gives a statement up before its worker does, so that
 * what a worker gave up is not done behind its back.
 */
export const WorkerPool = pool({
  multiplex: true,
  maxConnections: 5,
  connectionTTL: "10 seconds",
  keepAlive: "10 seconds",
  startupParameters: { statement_timeout: "4000" }
})
