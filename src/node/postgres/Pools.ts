/**
 * The database, and the connection pools of the gateway on it: one for each kind of work, so that none waits for another: reads, lists, probes, DPoP proofs, grant
 * provisioning, the ledger, workers and figures. Migrations have one while they run.
 *
 * The room `node/postgres`: the connections to the database. Read this file first.
 */
import type * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { ListClient } from "../../services/sql/reads/SqlOperationStore.ts"
import type { LocalPostgresError } from "../embedded/LocalPostgres.ts"
import { Database, type DatabaseOptions } from "./Database.ts"
import * as DriverClient from "./driver/DriverClient.ts"
import { epochTimestamps, ReadServers } from "./driver/DriverClient.ts"
import { poolSizes } from "./poolSizes.ts"

export { Database, type DatabaseOptions, type InvalidSetting, type LocalPostgresError }
export { PgAcceptanceSignal } from "./PgAcceptanceSignal.ts"

const applicationName = "financial-agents-gateway"

/**
 * How long a connection lives. A server that disappears without closing the connection causes no error: TCP retransmits
 * for a quarter of an hour, and all bytes written in that time are lost. Abandoning a statement does not close a shared
 * connection. So connections are replaced after seconds.
 */
const connectionTTL = "30 seconds"

/** A client on the `Database`. All users of the same layer share one pool. Metrics name it `name`. */
const pool = (
  name: keyof typeof poolSizes,
  startupParameters: NonNullable<PgClient.PgPoolConfig["startupParameters"]>,
  settings: PgClient.PgPoolConfig = { connectionTTL }
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError, Database> =>
  Layer.effectContext(
    Effect.flatMap(Database, ({ connection, setting }) => {
      const ofPool = { ...settings, startupParameters, maxConnections: poolSizes[name] }
      return Layer.build(DriverClient.layer({ applicationName, ...connection, ...ofPool }, name, setting))
    })
  )

/**
 * The parameters of the sessions of a pool. PostgreSQL ends statements that take longer than so many milliseconds even if the client process is
 * stopped or gone.
 *
 * `jit` is off: up to version 17, PostgreSQL sees a plan that breaks a setting such as `enable_seqscan` as expensive enough to compile. Triggers
 * have such settings, and a compilation takes longer than hundreds of their statements.
 */
const session = (of: { readonly statement: number; readonly lock: number }) => ({
  jit: "off",
  statement_timeout: String(of.statement),
  lock_timeout: String(of.lock),
  // A process that stops inside a transaction keeps its locks for this long at most.
  idle_in_transaction_session_timeout: "5000"
})

/** Shorter than the deadline of a request: the server cancels a statement before the request that waits for it ends. */
const requestLimits = session({ statement: 1500, lock: 1000 })

/**
 * Settings of the pools that read. The session refuses every statement that writes.
 *
 * It always reads an index in list order. Without these settings, PostgreSQL may sort all operations of an owner where
 * it has no statistics of the table, such as after a restore.
 */
export const readerParameters = {
  default_transaction_read_only: "on",
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_sort: "off",
  ...requestLimits
}

/** A pool whose reads other servers may serve, too: see `ReadServers`. */
const readingPool = (name: "reader" | "lists", settings: PgClient.PgPoolConfig) =>
  Layer.unwrap(Effect.map(ReadServers, (readServers) =>
    Layer.provide(
      pool(name, readerParameters, settings),
      readServers(name, { ...settings, startupParameters: readerParameters, maxConnections: poolSizes[name] })
    )))

/**
 * For `OperationStore`, `OperationFeed` and verifiers, those of applications, too. Timestamps are milliseconds since the epoch. A standby may serve
 * the statements with `onPrimaryOrStandby`.
 *
 * Its connections have no `connectionTTL`: checking the age of a connection with each statement would cost a quarter of the reads. Many
 * statements share a connection, so no statement may be slow or wait for a lock. Only migrations lock these tables. The other pools have
 * nothing to join: each of their statements has a connection of its own.
 */
export const ReaderPool: Layer.Layer<SqlClient.SqlClient, SqlError, Database> = readingPool("reader", {
  multiplex: true,
  types: epochTimestamps()
})

/**
 * For filtered lists, reads of limits, and slow pages of changes: see `ListClient`. Each statement has a connection of its own, which is freed when its client
 * goes. There are twice as many connections as one client may use (`LifecycleOptions.maxListsPerClient`).
 */
export const ListPool = Layer.effect(ListClient, SqlClient.SqlClient).pipe(
  Layer.provide(readingPool("lists", { connectionTTL }))
)

/**
 * For readiness probes. They must be answered even when the pools of the requests are full. A probe waits for a second, and its statement
 * ends before that, so that the probe learns why.
 */
export const ProbePool = pool("probe", { ...readerParameters, ...session({ statement: 800, lock: 500 }) })

/**
 * For used DPoP proofs. Each request with a DPoP proof writes one row, and may wait for a request that writes the same
 * row.
 */
export const ProofPool = pool("proofs", requestLimits)

/** For grant provisioning. A registration may wait for a revocation, and must not delay other statements. */
export const ProvisioningPool = pool("provisioning", requestLimits)

/** For `LedgerFigures`. It has no planner settings of the readers, because its statements aggregate. */
export const FiguresPool = pool("figures", {
  default_transaction_read_only: "on",
  ...session({ statement: 3000, lock: 1000 })
})

/** For the ledger and administration. Statements may wait for locks, so each has a connection of its own. */
export const WriterPool = pool("writer", session({ statement: 10_000, lock: 2000 }))

/**
 * For migrations. A statement may take long on a large ledger. It waits only a few seconds for a lock, because reads
 * and acceptances queue behind a waiting lock. It confirms nothing: the procedure for that comes with a migration.
 */
export const MigrationPool = pool("migration", session({ statement: 0, lock: 5000 })).pipe(
  Layer.provide(Layer.succeed(DriverClient.SessionResults, DriverClient.SessionResults.defaultValue()))
)

/**
 * For workers, and for hints of a process without them. One connection of the workers listens for acceptances and hints. The
 * server cancels a statement before its worker stops waiting, so no abandoned statement can still commit. Statements may wait for
 * the lock of a row, so each has a connection of its own.
 */
export const WorkerPool = pool("worker", session({ statement: 4000, lock: 2000 }), {
  connectionTTL: "10 seconds",
  keepAlive: "10 seconds"
})
