/** Runs the server of a cluster, and asks it. */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type Cluster, port, prepareCluster, username } from "./Cluster.ts"
import { findOrphan, type Postmaster, readPidFile, send, spawnPostmaster, stop, waitUntilGone } from "./Postmaster.ts"
import { attempt, LocalPostgresError, readFile } from "./System.ts"

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

/** Options of a server that this process starts. */
export interface ServerOptions {
  readonly settings: Readonly<Record<string, string>>
  readonly binDirectory: string | undefined
}

/**
 * How long a server may take until it answers. After a crash, recovery replays the log since the last checkpoint, at
 * most five minutes of writes, before the server accepts connections.
 */
const startPatience = "2 minutes"

/**
 * Runs the cluster's server until the scope closes: adopts the one that a killed owner left running, else starts one.
 * Only the holder of the lock may call it, and the lock must outlast the scope.
 */
export const runServer = (cluster: Cluster, options: ServerOptions) =>
  adoptOrStart(cluster, options).pipe(
    Effect.timeoutOrElse({
      duration: startPatience,
      orElse: () =>
        new LocalPostgresError({ message: `No answer from PostgreSQL in ${startPatience}: see ${cluster.log}` })
    })
  )

const adoptOrStart = Effect.fnUntraced(function*(cluster: Cluster, options: ServerOptions) {
  while (true) {
    const orphan = yield* own(findOrphan(cluster))
    // An orphan that was shutting down is gone then: the next round starts a new server.
    if (orphan !== undefined) {
      if (yield* waitUntilReady(cluster, orphan)) return
      continue
    }
    const installation = yield* prepareCluster(cluster, options.binDirectory)
    const started = yield* own(spawnPostmaster(cluster, installation, options.settings))
    if (yield* waitUntilReady(cluster, started)) return
    yield* failUnlessOthersLinger(cluster, started.logStart)
    yield* Effect.sleep("100 millis")
  }
})

/** Stops the server when the scope closes, also after a failure, and reports an earlier end. */
const own = <P extends Postmaster | undefined, E>(find: Effect.Effect<P, E>) =>
  Effect.uninterruptible(Effect.gen(function*() {
    const postmaster = yield* find
    if (postmaster === undefined) return postmaster
    // A process that ends without closing its scopes (an uncaught exception, process.exit) still stops its server.
    const atExit = () => send(postmaster, "SIGINT")
    process.once("exit", atExit)
    yield* Effect.addFinalizer(Effect.fnUntraced(function*() {
      yield* stop(postmaster)
      process.off("exit", atExit)
    }))
    return postmaster
  }))

/** True once the server answers, and false if it ends before. Then reports its end. */
const waitUntilReady = Effect.fnUntraced(function*(cluster: Cluster, postmaster: Postmaster) {
  while (postmaster.isAlive()) {
    if (yield* isAnswering(cluster, postmaster.pid)) {
      yield* Effect.forkScoped(reportDeath(cluster, postmaster))
      return true
    }
    yield* Effect.sleep("20 millis")
  }
  return false
})

const reportDeath = (cluster: Cluster, postmaster: Postmaster) =>
  waitUntilGone(postmaster, 500).pipe(
    Effect.andThen(Effect.logError(`PostgreSQL (pid ${postmaster.pid}) ended unexpectedly: see ${cluster.log}`))
  )

/** Whether the cluster's server answers right now; the one with this process id when given. */
export const isAnswering = Effect.fnUntraced(function*(cluster: Cluster, pid?: number) {
  const file = yield* readPidFile(cluster)
  const isReady = file?.ready === true && (pid ?? file.pid) === file.pid
  return isReady && (yield* answers(cluster.socketDirectory))
})

/**
 * Fails with the log of a server that ended during its start. Two reasons are temporary and do not fail: the children
 * of a killed server still hold its shared memory; and an orphan that was not visible yet holds the data directory.
 */
const failUnlessOthersLinger = Effect.fnUntraced(function*({ log }: Cluster, logStart: number) {
  const said = yield* attempt("Could not read the server's log", () => readFile(log, logStart) ?? "")
  if (/is still in use|lock file "postmaster.pid" already exists/.test(said)) return
  const end = said.trim().split("\n").slice(-20).join("\n")
  return yield* new LocalPostgresError({ message: `PostgreSQL ended during its start. The end of its log:\n${end}` })
})
