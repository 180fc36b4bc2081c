import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Cluster, type Installation, pgdataOwner, port, prepareCluster, removeSocketDirectory } from "./Cluster.ts"
import { answers } from "./Connection.ts"
import { ownerUid } from "./DirectoryOwner.ts"
import { attempt, LocalPostgresError } from "./LocalPostgresError.ts"
import { openUnlessMissing, readOwned } from "./OwnedFiles.ts"
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
export const runServer = Effect.fnUntraced(function*(cluster: Cluster, options: ServerOptions) {
  const socketDirectories = new Set([cluster.socketDirectory])
  yield* Effect.addFinalizer(() =>
    Effect.forEach(socketDirectories, (directory) => removeSocketDirectory(cluster, directory))
  )
  const server = yield* adoptOrStart(cluster, options, socketDirectories).pipe(
    Effect.timeoutOrElse({
      duration: startPatience,
      orElse: () =>
        new LocalPostgresError({ message: `No answer from PostgreSQL in ${startPatience}: see ${cluster.log}` })
    })
  )
  yield* Effect.forkScoped(reportDeath(cluster, server.postmaster))
  return { socketDirectory: server.socketDirectory } satisfies Server
})

/** Adopts or starts a server. Adds its socket directory to `socketDirectories` before it answers. */
const adoptOrStart = Effect.fnUntraced(function*(
  cluster: Cluster,
  options: ServerOptions,
  socketDirectories: Set<string>
) {
  while (true) {
    const orphan = yield* adopt(cluster)
    if (orphan !== undefined) {
      const socketDirectory = yield* waitUntilReady(cluster, orphan)
      if (socketDirectory !== undefined) {
        socketDirectories.add(socketDirectory)
        return { postmaster: orphan, socketDirectory }
      }
      // It was shutting down: the next round starts a new server.
      continue
    }
    const installation = yield* prepareCluster(cluster, options.binDirectory)
    socketDirectories.add(installation.socketDirectory)
    const logStart = yield* shortenLog(cluster)
    const postmaster = yield* start(cluster, installation, options)
    const socketDirectory = yield* waitUntilReady(cluster, postmaster)
    if (socketDirectory !== undefined) return { postmaster, socketDirectory }
    yield* failUnlessOthersLinger(cluster, logStart)
    yield* Effect.sleep("100 millis")
  }
})

/** Stops the server when the scope closes, also after a failure. */
const ownUntilClose = (postmaster: Postmaster) => {
  // A process that ends without closing its scopes (an uncaught exception, process.exit) still stops its server.
  const atExit = () => send(postmaster, "SIGINT")
  return Effect.acquireRelease(
    Effect.sync(() => void process.once("exit", atExit)),
    () => stop(postmaster).pipe(Effect.ensuring(Effect.sync(() => process.off("exit", atExit))))
  )
}

const adopt = (cluster: Cluster) =>
  findOrphan(cluster).pipe(
    Effect.tap((orphan) => (orphan === undefined ? Effect.void : ownUntilClose(orphan))),
    Effect.uninterruptible
  )

const start = (cluster: Cluster, installation: Installation, options: ServerOptions) =>
  spawnPostmaster(cluster, installation, options.settings).pipe(
    Effect.tap(ownUntilClose),
    Effect.uninterruptible
  )

/** Returns the socket directory once the server answers, or `undefined` if it ends before. */
const waitUntilReady = Effect.fnUntraced(function*(cluster: Cluster, postmaster: Postmaster) {
  while (postmaster.isAlive()) {
    const server = yield* findAnswering(cluster, postmaster.pid)
    if (server !== undefined) return server.socketDirectory
    yield* Effect.sleep("20 millis")
  }
  return undefined
})

/** The cluster's server, if it answers right now; the one with this process id when given. */
export const findAnswering = Effect.fnUntraced(function*(cluster: Cluster, pid?: number) {
  const [owner, file] = [yield* pgdataOwner(cluster), yield* readPidFile(cluster)]
  if (file === undefined || !file.ready || (pid !== undefined && pid !== file.pid)) return undefined
  return isSocketOf(owner, file.socketDirectory) && (yield* answers(file.socketDirectory))
    ? ({ socketDirectory: file.socketDirectory } satisfies Server)
    : undefined
})

/** Checks the socket, because the owner of the cluster could write the address of any other server into the file. */
const isSocketOf = (owner: number | undefined, directory: string) => {
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
const failUnlessOthersLinger = Effect.fnUntraced(function*(cluster: Cluster, logStart: number) {
  const owner = yield* ownerUid(cluster.dataDirectory)
  const said = yield* attempt(
    "Could not read the server's log",
    () => (readOwned(cluster.log, owner, logStart) ?? "").trim().split("\n").slice(-20).join("\n")
  )
  if (/is still in use|lock file "postmaster.pid" already exists/.test(said)) return
  return yield* new LocalPostgresError({ message: `PostgreSQL ended during its start. The end of its log:\n${said}` })
})

const largestLog = 10 * 1024 * 1024

/** Empties a log of more than `largestLog` bytes. Returns its new size. */
const shortenLog = Effect.fnUntraced(function*(cluster: Cluster) {
  const owner = yield* ownerUid(cluster.dataDirectory)
  return yield* attempt("Could not open the server's log", () => {
    const descriptor = openUnlessMissing(cluster.log, fs.constants.O_RDWR, owner)
    if (descriptor === undefined) return 0
    try {
      const { size } = fs.fstatSync(descriptor)
      if (size <= largestLog) return size
      fs.ftruncateSync(descriptor)
      return 0
    } finally {
      fs.closeSync(descriptor)
    }
  })
})

const reportDeath = (cluster: Cluster, postmaster: Postmaster) =>
  waitUntilGone(postmaster, 500).pipe(
    Effect.andThen(Effect.logError(`PostgreSQL (pid ${postmaster.pid}) ended unexpectedly: see ${cluster.log}`))
  )
