import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Cluster, port, prepareCluster, removeSocketDirectory } from "./Cluster.ts"
import { answers } from "./Connection.ts"
import { ownerOf, readOwned } from "./DataDirectory.ts"
import { attempt, LocalPostgresError } from "./LocalPostgresError.ts"
import { findOrphan, type Postmaster, readPidFile, send, spawnPostmaster, stop, waitUntilGone } from "./Postmaster.ts"

/** A server that answers. */
export interface Server {
  /** Directory of its socket. An adopted server keeps the directory that its starter chose. */
  readonly socketDirectory: string
}

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
    const orphan = yield* own(cluster, findOrphan(cluster))
    // An orphan that was shutting down is gone then: the next round starts a new server.
    const adopted = orphan && (yield* waitUntilReady(cluster, orphan))
    if (adopted !== undefined) return adopted
    if (orphan !== undefined) continue
    const installation = yield* prepareCluster(cluster, options.binDirectory)
    const started = yield* own(cluster, spawnPostmaster(cluster, installation, options.settings))
    const server = yield* waitUntilReady(cluster, started)
    if (server !== undefined) return server
    yield* failUnlessOthersLinger(cluster, started.logStart)
    yield* Effect.sleep("100 millis")
  }
})

/** Stops the server when the scope closes, also after a failure, and reports an earlier end. */
const own = <P extends Postmaster | undefined, E>(cluster: Cluster, find: Effect.Effect<P, E>) =>
  Effect.uninterruptible(Effect.gen(function*() {
    const postmaster = yield* find
    if (postmaster === undefined) return postmaster
    // A process that ends without closing its scopes (an uncaught exception, process.exit) still stops its server.
    const atExit = () => send(postmaster, "SIGINT")
    process.once("exit", atExit)
    yield* Effect.addFinalizer(Effect.fnUntraced(function*() {
      yield* stop(postmaster)
      process.off("exit", atExit)
      yield* removeSocketDirectory(cluster, postmaster.socketDirectory)
    }))
    return postmaster
  }))

/** Returns the server once it answers, or `undefined` if it ends before. Then reports its end. */
const waitUntilReady = Effect.fnUntraced(function*(cluster: Cluster, postmaster: Postmaster) {
  while (postmaster.isAlive()) {
    const server = yield* findAnswering(cluster, postmaster.pid)
    if (server !== undefined) {
      yield* Effect.forkScoped(reportDeath(cluster, postmaster))
      return server
    }
    yield* Effect.sleep("20 millis")
  }
  return undefined
})

const reportDeath = (cluster: Cluster, postmaster: Postmaster) =>
  waitUntilGone(postmaster, 500).pipe(
    Effect.andThen(Effect.logError(`PostgreSQL (pid ${postmaster.pid}) ended unexpectedly: see ${cluster.log}`))
  )

/** The cluster's server, if it answers right now; the one with this process id when given. */
export const findAnswering = Effect.fnUntraced(function*(cluster: Cluster, pid?: number) {
  const file = yield* readPidFile(cluster)
  if (file === undefined || !file.ready || (pid !== undefined && pid !== file.pid)) return undefined
  return isSocketOf(file.owner, file.socketDirectory) && (yield* answers(file.socketDirectory))
    ? ({ socketDirectory: file.socketDirectory } satisfies Server)
    : undefined
})

/** Checks the socket, because the owner of the cluster could write the address of any other server into the file. */
const isSocketOf = (owner: number, directory: string) => {
  if (!path.isAbsolute(directory)) return false
  try {
    const stat = fs.lstatSync(path.join(directory, `.s.PGSQL.${port}`))
    return stat.isSocket() && stat.uid === owner
  } catch {
    // There is no socket, or the text is no path.
    return false
  }
}

/**
 * Fails with the log of a server that ended during its start. Two reasons are temporary and do not fail: the children
 * of a killed server still hold its shared memory; and an orphan that was not visible yet holds the data directory.
 */
const failUnlessOthersLinger = Effect.fnUntraced(function*({ dataDirectory, log }: Cluster, logStart: number) {
  const { uid } = yield* ownerOf(dataDirectory)
  const said = yield* attempt("Could not read the server's log", () => readOwned(log, uid, logStart) ?? "")
  if (/is still in use|lock file "postmaster.pid" already exists/.test(said)) return
  const end = said.trim().split("\n").slice(-20).join("\n")
  return yield* new LocalPostgresError({ message: `PostgreSQL ended during its start. The end of its log:\n${end}` })
})
