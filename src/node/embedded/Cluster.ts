import * as Effect from "effect/Effect"
import { createHash, randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { type Binaries, findBinaries } from "./Binaries.ts"
import { run } from "./Command.ts"
import { openDataDirectory, type Owner, ownerOf, ownerUid } from "./DirectoryOwner.ts"
import { attempt, LocalPostgresError } from "./LocalPostgresError.ts"
import { makeDirectory, readOwned, remove, removeEmpty, rename } from "./OwnedFiles.ts"
import { chooseRunAs, commandOf, type RunAs } from "./RunAs.ts"

/** Names the socket file; nothing listens on a TCP port. */
export const port = 5432

/** The superuser that `initdb` creates, and the only role. */
export const username = "postgres"

/** The files and directories of one local PostgreSQL. All paths are absolute and real. */
export interface Cluster {
  readonly dataDirectory: string
  /** PostgreSQL's own directory. Exists only when complete. */
  readonly pgdata: string
  readonly log: string
  /** The file that the owner of the directory locks. */
  readonly lock: string
  /** Holds the socket of a server that is started here; mode 0700. */
  readonly socketDirectory: string
}

/** Creates the data directory (mode 0700) if needed, and returns the paths of its parts. Starts nothing. */
export const openCluster = Effect.fnUntraced(function*(directory: string) {
  const dataDirectory = yield* openDataDirectory(directory)
  const hash = createHash("sha256").update(dataDirectory).digest("hex").slice(0, 32)
  return {
    dataDirectory,
    pgdata: path.join(dataDirectory, "pgdata"),
    log: path.join(dataDirectory, "postgres.log"),
    lock: path.join(dataDirectory, "lock"),
    socketDirectory: yield* socketDirectoryFor(dataDirectory, hash)
  } satisfies Cluster
})

/** Bytes that the address of a unix socket can hold, without its terminating NUL. */
const longestSocketPath = process.platform === "linux" ? 107 : 103

const sharedPrefix = "financial-agents-gateway-"

const socketDirectoryFor = (dataDirectory: string, hash: string): Effect.Effect<string, LocalPostgresError> => {
  const places = [path.join(dataDirectory, "socket"), path.join(os.tmpdir(), `${sharedPrefix}${hash}`)]
  const fits = places.find((place) => Buffer.byteLength(socketIn(place)) <= longestSocketPath)
  return fits === undefined
    ? Effect.fail(new LocalPostgresError({ message: `Too long for a unix socket: ${places.map(socketIn).join(", ")}` }))
    : Effect.succeed(fits)
}

const socketIn = (directory: string) => path.join(directory, `.s.PGSQL.${port}`)

/** Everything needed to start a server: the programs, the user that runs them, and the directory of the socket. */
export interface Installation {
  readonly binaries: Binaries
  readonly runAs: RunAs
  readonly socketDirectory: string
}

/**
 * Makes the cluster ready for a server to start: finds the programs, creates the database cluster if there is none,
 * refuses a cluster that another major version of PostgreSQL made. Only the holder of the lock may call it.
 */
export const prepareCluster = Effect.fnUntraced(function*(cluster: Cluster, binDirectory: string | undefined) {
  yield* removeAbandoned(cluster)
  const existing = (yield* pgdataOwner(cluster)) === undefined ? undefined : yield* majorOf(cluster)
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
  const owner = yield* ownerOf(cluster.dataDirectory)
  if (existing === undefined) yield* initialise(cluster, binaries, runAs, owner)
  const socketDirectory = yield* prepareSocketDirectory(cluster, owner)
  return { binaries, runAs, socketDirectory } satisfies Installation
})

/** The user id of the owner of PostgreSQL's own directory. `undefined` when there is no such directory. */
export const pgdataOwner = Effect.fnUntraced(function*(cluster: Cluster) {
  const owner = yield* ownerUid(cluster.dataDirectory)
  return yield* attempt("Could not look at the database cluster", () => {
    const stat = fs.lstatSync(cluster.pgdata, { throwIfNoEntry: false })
    if (stat === undefined) return undefined
    if (!stat.isDirectory()) throw new Error(`${cluster.pgdata} is not a directory. Remove it.`)
    if (stat.uid !== owner && owner !== 0) {
      throw new Error(`${cluster.pgdata} belongs to user ${stat.uid}, but its directory to user ${owner}`)
    }
    return stat.uid
  })
})

/** The major version of PostgreSQL that made the cluster. */
export const majorOf = Effect.fnUntraced(function*(cluster: Cluster) {
  const owner = yield* pgdataOwner(cluster)
  const version = yield* attempt(
    `${cluster.pgdata} is not a PostgreSQL data directory`,
    () => owner === undefined ? undefined : readOwned(path.join(cluster.pgdata, "PG_VERSION"), owner)
  )
  if (version !== undefined) return Number(version)
  return yield* new LocalPostgresError({ message: `${cluster.pgdata} is not a PostgreSQL data directory.` })
})

const unfinishedPrefix = "pgdata.init-"

const removeAbandoned = Effect.fnUntraced(function*(cluster: Cluster) {
  const owner = yield* ownerOf(cluster.dataDirectory)
  const names = yield* attempt("Could not read the data directory", () => fs.readdirSync(cluster.dataDirectory))
  for (const name of names.filter((name) => name.startsWith(unfinishedPrefix))) {
    const abandoned = path.join(cluster.dataDirectory, name)
    const stat = fs.lstatSync(abandoned, { throwIfNoEntry: false })
    // Root must not remove a directory that another user may still change.
    if (stat?.uid === owner.uid) yield* remove(abandoned, owner)
  }
})

/** Creates the cluster under another name and renames it. If it is killed, `pgdata` is complete or absent. */
const initialise = Effect.fnUntraced(function*(cluster: Cluster, binaries: Binaries, runAs: RunAs, owner: Owner) {
  const unfinished = path.join(cluster.dataDirectory, `${unfinishedPrefix}${randomUUID()}`)
  const initdb = commandOf(runAs, binaries.initdb, [
    `--pgdata=${unfinished}`,
    `--username=${username}`,
    // No password: the server is reachable only through the socket's directory, which is closed to other users (see
    // below).
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--data-checksums",
    "--no-instructions"
  ])
  yield* Effect.gen(function*() {
    yield* makeDirectory(unfinished, owner)
    yield* run(initdb.file, initdb.args, initdb.identity)
    yield* rename(unfinished, cluster.pgdata, owner)
    yield* attempt("Could not make the new database cluster durable", () => syncDirectory(cluster.dataDirectory))
  }).pipe(Effect.onError(() => Effect.ignore(remove(unfinished, owner))))
})

/** Makes the rename durable. `initdb` has synced the content of the directory. */
const syncDirectory = (directory: string) => {
  const descriptor = fs.openSync(directory, "r")
  fs.fsyncSync(descriptor)
  fs.closeSync(descriptor)
}

/**
 * Creates the directory of the socket if needed, and returns it.
 *
 * Any user who can open the socket is superuser, because authentication is `trust`: a password would have to stand in a
 * file beside it, under the same protection. So only the owner may access the directory. In the shared temporary
 * directory another user may have taken its name before: then it gets a random name.
 */
const prepareSocketDirectory = Effect.fnUntraced(function*({ dataDirectory, socketDirectory }: Cluster, owner: Owner) {
  const prepare = prepareDirectory(socketDirectory, owner)
  const parent = path.dirname(socketDirectory)
  if (parent === dataDirectory) return yield* prepare
  return yield* Effect.catch(
    prepare,
    () => prepareDirectory(path.join(parent, `${sharedPrefix}${randomUUID().replaceAll("-", "")}`), owner)
  )
})

const prepareDirectory = Effect.fnUntraced(function*(directory: string, owner: Owner) {
  const look = attempt(
    "Could not look at the directory of the socket",
    () => fs.lstatSync(directory, { throwIfNoEntry: false })
  )
  if ((yield* look) === undefined) yield* makeDirectory(directory, owner)
  // For root this checks the directories above as well.
  const [uid, stat] = [yield* ownerUid(directory), yield* look]
  if (uid === owner.uid && stat?.isDirectory() === true && stat.uid === uid && (stat.mode & 0o077) === 0) {
    return directory
  }
  return yield* new LocalPostgresError({
    message: `${directory} must be a directory that belongs to user ${owner.uid} with mode 0700. Remove it and retry.`
  })
})

/** Removes the directory of the socket when a server has left it. */
export const removeSocketDirectory = (cluster: Cluster, directory: string): Effect.Effect<void> =>
  Effect.flatMap(ownerOf(cluster.dataDirectory), (owner) => removeEmpty(directory, owner)).pipe(Effect.ignore)
