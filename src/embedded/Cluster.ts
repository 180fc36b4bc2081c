import * as Effect from "effect/Effect"
import { createHash, randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { type Binaries, findBinaries } from "./Binaries.ts"
import { run } from "./Command.ts"
import { attempt, attemptPromise, LocalPostgresError } from "./LocalPostgresError.ts"
import { chooseRunAs, commandOf, type RunAs } from "./RunAs.ts"

/** Names the socket file; nothing listens on a TCP port. */
export const port = 5432

/** The superuser that `initdb` creates, and the only role. */
export const username = "postgres"

/** Where everything of one local PostgreSQL lives. All paths are absolute and real. */
export interface Cluster {
  readonly dataDirectory: string
  /** PostgreSQL's own directory. Exists only when complete. */
  readonly pgdata: string
  readonly log: string
  /** Holds the socket of a server that is started here; mode 0700. */
  readonly socketDirectory: string
  readonly lockKey: string
}

/** Creates the data directory (mode 0700) if needed and says where its parts are. Starts nothing. */
export const openCluster = Effect.fnUntraced(function*(directory: string) {
  const dataDirectory = yield* attempt("Could not create the data directory", () => {
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
    return fs.realpathSync(directory)
  })
  const hash = createHash("sha256").update(dataDirectory).digest("hex").slice(0, 32)
  return {
    dataDirectory,
    pgdata: path.join(dataDirectory, "pgdata"),
    log: path.join(dataDirectory, "postgres.log"),
    socketDirectory: yield* socketDirectoryFor(dataDirectory, hash),
    lockKey: `financial-agents-gateway-${hash}`
  } satisfies Cluster
})

/** Bytes that the address of a unix socket can hold, without its terminating NUL. */
const longestSocketPath = process.platform === "linux" ? 107 : 103

const socketDirectoryFor = (dataDirectory: string, hash: string): Effect.Effect<string, LocalPostgresError> => {
  const places = [path.join(dataDirectory, "socket"), path.join(os.tmpdir(), `financial-agents-gateway-${hash}`)]
  const fits = places.find((place) => Buffer.byteLength(socketIn(place)) <= longestSocketPath)
  return fits === undefined
    ? Effect.fail(new LocalPostgresError({ message: `Too long for a unix socket: ${places.map(socketIn).join(", ")}` }))
    : Effect.succeed(fits)
}

const socketIn = (directory: string) => path.join(directory, `.s.PGSQL.${port}`)

/** What it takes to start a server: the programs, and whom to run them as. */
export interface Installation {
  readonly binaries: Binaries
  readonly runAs: RunAs
}

/**
 * Makes the cluster ready for a server to start: finds the programs, creates the database cluster if there is none,
 * refuses one that another major version of PostgreSQL made. Only the holder of the lock may call it.
 */
export const prepareCluster = Effect.fnUntraced(function*(cluster: Cluster, binDirectory: string | undefined) {
  yield* removeAbandoned(cluster)
  const existing = fs.existsSync(cluster.pgdata) ? yield* majorOf(cluster) : undefined
  const binaries = yield* findBinaries({ directory: binDirectory, preferredMajor: existing })
  if (existing !== undefined && existing !== binaries.major) {
    return yield* new LocalPostgresError({
      message: [
        `${cluster.pgdata} was made by PostgreSQL ${existing}, but the one found here is PostgreSQL ${binaries.major}`,
        `(${binaries.postgres}). Install PostgreSQL ${existing}, move the data with pg_upgrade or pg_dump, or delete`,
        "the directory to start afresh."
      ].join("\n")
    })
  }
  const runAs = yield* chooseRunAs({ ...cluster, postgres: binaries.postgres })
  if (existing === undefined) yield* initialise(cluster, binaries, runAs)
  yield* prepareSocketDirectory(cluster.socketDirectory, runAs)
  return { binaries, runAs } satisfies Installation
})

/** The major version of PostgreSQL that made the cluster. */
export const majorOf = (cluster: Cluster): Effect.Effect<number, LocalPostgresError> =>
  attempt(
    `${cluster.pgdata} is not a PostgreSQL data directory`,
    () => Number(fs.readFileSync(path.join(cluster.pgdata, "PG_VERSION"), "utf8"))
  )

const unfinishedPrefix = "pgdata.init-"

const removeAbandoned = (cluster: Cluster) =>
  attempt("Could not read the data directory", () => fs.readdirSync(cluster.dataDirectory)).pipe(
    Effect.map((names) => names.filter((name) => name.startsWith(unfinishedPrefix))),
    Effect.flatMap(Effect.forEach((name) => remove(path.join(cluster.dataDirectory, name)), { discard: true }))
  )

/** Retries, because an `initdb` whose starter was killed may still be writing. */
const remove = (directory: string) =>
  attemptPromise(
    "Could not remove what an interrupted start left behind",
    () => fs.promises.rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  )

/** Works beside the final place and renames: whatever kills it, `pgdata` is complete or absent. */
const initialise = Effect.fnUntraced(function*(cluster: Cluster, binaries: Binaries, runAs: RunAs) {
  const unfinished = path.join(cluster.dataDirectory, `${unfinishedPrefix}${randomUUID()}`)
  const initdb = commandOf(runAs, binaries.initdb, [
    `--pgdata=${unfinished}`,
    `--username=${username}`,
    // No password inside: only the socket's directory, closed to everyone else, leads to the server (see below).
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--data-checksums",
    "--no-instructions"
  ])
  yield* Effect.gen(function*() {
    yield* attempt("Could not create the database cluster", () => makePrivate(unfinished, runAs))
    yield* run(initdb.file, initdb.args, initdb.identity)
    yield* attempt("Could not put the new database cluster in its place", () => {
      fs.renameSync(unfinished, cluster.pgdata)
      syncDirectory(cluster.dataDirectory)
    })
  }).pipe(Effect.onError(() => Effect.ignore(remove(unfinished))))
})

/** `initdb` has synced what is inside the directory; the new name is ours to sync. */
const syncDirectory = (directory: string) => {
  const descriptor = fs.openSync(directory, "r")
  fs.fsyncSync(descriptor)
  fs.closeSync(descriptor)
}

/**
 * Whoever can open the socket is superuser, because authentication is `trust`: a password would have to lie in a file
 * beside it, under the same protection. So the directory must be ours and nobody else's: in the shared temporary
 * directory another user may have made one of this name first.
 */
const prepareSocketDirectory = (directory: string, runAs: RunAs) =>
  Effect.gen(function*() {
    const stat = yield* attempt("Could not create the directory of the socket", () => {
      if (!fs.existsSync(directory)) makePrivate(directory, runAs)
      return fs.lstatSync(directory)
    })
    const owner = runAs.identity?.uid ?? process.geteuid?.()
    if (!stat.isDirectory() || stat.uid !== owner || (stat.mode & 0o077) !== 0) {
      return yield* new LocalPostgresError({
        message: `${directory} must be a directory that belongs to user ${owner} with mode 0700. Remove it and retry.`
      })
    }
  })

const makePrivate = (directory: string, runAs: RunAs) => {
  fs.mkdirSync(directory, { mode: 0o700 })
  if (runAs.identity !== undefined) fs.chownSync(directory, runAs.identity.uid, runAs.identity.gid)
}
