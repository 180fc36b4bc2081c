import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { type Binaries, findBinaries } from "./Binaries.ts"
import { run } from "./Command.ts"
import { makeDirectory, openDataDirectory, ownerOf, readOwned, remove, removeEmpty, rename } from "./DataDirectory.ts"
import { attempt, LocalPostgresError } from "./LocalPostgresError.ts"
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
  /** Holds the socket of a server that is started here; mode 0700. */
  readonly socketDirectory: string
}

/** Bytes that the address of a unix socket can hold, without its terminating NUL. */
const longestSocketPath = process.platform === "linux" ? 107 : 103

/** Creates the data directory (mode 0700) if needed, and returns the paths of its parts. Starts nothing. */
export const openCluster = Effect.fnUntraced(function*(directory: string) {
  const dataDirectory = yield* openDataDirectory(path.resolve(directory))
  const near = path.join(dataDirectory, "socket")
  const isNear = Buffer.byteLength(path.join(near, `.s.PGSQL.${port}`)) <= longestSocketPath
  return {
    dataDirectory,
    pgdata: path.join(dataDirectory, "pgdata"),
    log: path.join(dataDirectory, "postgres.log"),
    // A random name, because another user could take a predictable one in the shared directory.
    socketDirectory: isNear ? near : path.join(os.tmpdir(), `financial-agents-gateway-${randomUUID()}`)
  } satisfies Cluster
})

/** Everything needed to start a server: the programs, and the user that runs them. */
export interface Installation {
  readonly binaries: Binaries
  readonly runAs: RunAs
}

/**
 * Makes the cluster ready for a server to start: finds the programs, creates the database cluster if there is none,
 * refuses a cluster that another major version of PostgreSQL made. Only the holder of the lock may call it.
 */
export const prepareCluster = Effect.fnUntraced(function*(cluster: Cluster, binDirectory: string | undefined) {
  yield* removeAbandoned(cluster)
  const existing = (yield* pgdataOwner(cluster)) === undefined ? undefined : yield* majorOf(cluster)
  const binaries = yield* findBinaries(binDirectory, existing)
  if (existing !== undefined && existing !== binaries.major) {
    return yield* new LocalPostgresError({
      message: [
        `${cluster.pgdata} was made by PostgreSQL ${existing}, but the one found here is PostgreSQL ${binaries.major}`,
        `(${binaries.postgres}). Install PostgreSQL ${existing}, move the data with pg_upgrade or pg_dump, or delete`,
        "the directory to start afresh."
      ].join("\n")
    })
  }
  const runAs = yield* chooseRunAs(binaries.postgres, cluster.dataDirectory, cluster.pgdata)
  if (existing === undefined) yield* initialise(cluster, binaries, runAs)
  yield* prepareSocketDirectory(cluster)
  return { binaries, runAs } satisfies Installation
})

/** The user id of the owner of PostgreSQL's own directory. `undefined` when there is no such directory. */
export const pgdataOwner = Effect.fnUntraced(function*({ dataDirectory, pgdata }: Cluster) {
  const owner = yield* ownerOf(dataDirectory)
  return yield* attempt("Could not look at the database cluster", () => {
    const stat = fs.lstatSync(pgdata, { throwIfNoEntry: false })
    if (stat?.isDirectory() === false) throw new Error(`${pgdata} is not a directory. Remove it.`)
    if (stat !== undefined && stat.uid !== owner.uid && owner.uid !== 0) {
      throw new Error(`${pgdata} belongs to user ${stat.uid}, but its directory to user ${owner.uid}`)
    }
    return stat?.uid
  })
})

/** The major version of PostgreSQL that made the cluster. */
export const majorOf = Effect.fnUntraced(function*(cluster: Cluster) {
  const owner = yield* pgdataOwner(cluster)
  return yield* attempt(`${cluster.pgdata} is not a PostgreSQL data directory`, () => {
    const version = owner === undefined ? undefined : readOwned(path.join(cluster.pgdata, "PG_VERSION"), owner)
    if (version === undefined) throw new Error("PG_VERSION is missing")
    return Number(version)
  })
})

const unfinishedPrefix = "pgdata.init-"

/** Removes what a killed `initdb` left, but as root no directory that another user may still change. */
const removeAbandoned = Effect.fnUntraced(function*({ dataDirectory }: Cluster) {
  const owner = yield* ownerOf(dataDirectory)
  const names = yield* attempt("Could not read the data directory", () => fs.readdirSync(dataDirectory))
  for (const name of names.filter((name) => name.startsWith(unfinishedPrefix))) {
    const abandoned = path.join(dataDirectory, name)
    if (fs.lstatSync(abandoned, { throwIfNoEntry: false })?.uid === owner.uid) yield* remove(abandoned, owner)
  }
})

/** Creates the cluster under another name and renames it. If it is killed, `pgdata` is complete or absent. */
const initialise = Effect.fnUntraced(function*({ dataDirectory, pgdata }: Cluster, { initdb }: Binaries, runAs: RunAs) {
  const owner = yield* ownerOf(dataDirectory)
  const unfinished = path.join(dataDirectory, `${unfinishedPrefix}${randomUUID()}`)
  const command = commandOf(runAs, initdb, [
    `--pgdata=${unfinished}`,
    `--username=${username}`,
    // No password: the server is reachable only through the socket's directory, which is closed to other users.
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--data-checksums",
    "--no-instructions"
  ])
  yield* Effect.gen(function*() {
    yield* makeDirectory(unfinished, owner)
    yield* run(command.file, command.args, command.identity)
    yield* rename(unfinished, pgdata, owner)
    // `initdb` has synced the content, but not the new name.
    yield* attempt("Could not make the new database cluster durable", () => {
      const descriptor = fs.openSync(dataDirectory, "r")
      fs.fsyncSync(descriptor)
      fs.closeSync(descriptor)
    })
  }).pipe(Effect.onError(() => Effect.ignore(remove(unfinished, owner))))
})

/**
 * Creates the directory of the socket if needed. Any user who can open the socket is superuser, because authentication is
 * `trust`: a password would have to stand in a file beside it, under the same protection.
 */
const prepareSocketDirectory = Effect.fnUntraced(function*({ dataDirectory, socketDirectory }: Cluster) {
  const owner = yield* ownerOf(dataDirectory)
  const look = attempt(
    "Could not look at the directory of the socket",
    () => fs.lstatSync(socketDirectory, { throwIfNoEntry: false })
  )
  if ((yield* look) === undefined) yield* makeDirectory(socketDirectory, owner)
  const stat = yield* look
  // For root this checks the directories above as well.
  const { uid } = yield* ownerOf(socketDirectory)
  if (stat?.isDirectory() === true && stat.uid === owner.uid && uid === owner.uid && (stat.mode & 0o077) === 0) return
  return yield* new LocalPostgresError({
    message:
      `${socketDirectory} must be a directory that belongs to user ${owner.uid} with mode 0700. Remove it and retry.`
  })
})

/** Removes the directory of the socket when a server has left it. */
export const removeSocketDirectory = (cluster: Cluster, directory: string): Effect.Effect<void> =>
  Effect.flatMap(ownerOf(cluster.dataDirectory), (owner) => removeEmpty(directory, owner)).pipe(Effect.ignore)
