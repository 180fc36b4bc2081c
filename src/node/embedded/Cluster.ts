import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Binaries, chooseRunAs, commandOf, findBinaries, giveTo, type RunAs } from "./Installation.ts"
import { attempt, LocalPostgresError, openDataDirectory, readFile, run } from "./System.ts"

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
  /** Holds the socket; mode 0700. */
  readonly socketDirectory: string
}

const pgdataName = "pgdata"

/** Bytes that the address of a unix socket can hold, without its terminating NUL. */
const longestSocketPath = process.platform === "linux" ? 107 : 103

/** Creates the data directory (mode 0700) if needed, and returns the paths of its parts. Starts nothing. */
export const openCluster = Effect.fnUntraced(function*(directory: string) {
  const dataDirectory = yield* openDataDirectory(path.resolve(directory))
  const socketDirectory = path.join(dataDirectory, "socket")
  if (Buffer.byteLength(path.join(socketDirectory, `.s.PGSQL.${port}`)) > longestSocketPath) {
    return yield* new LocalPostgresError({
      message: `The path of a socket in ${socketDirectory} would be too long. Use a data directory with a shorter path.`
    })
  }
  return {
    dataDirectory,
    pgdata: path.join(dataDirectory, pgdataName),
    log: path.join(dataDirectory, "postgres.log"),
    socketDirectory
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
  const { dataDirectory, pgdata, socketDirectory } = cluster
  yield* removeAbandoned(dataDirectory)
  const binaries = yield* findBinaries(binDirectory)
  const exists = yield* attempt("Could not look at the database cluster", () => isDirectory(pgdata))
  const existing = exists ? yield* majorOf(cluster) : undefined
  if (existing !== undefined && existing !== binaries.major) {
    return yield* new LocalPostgresError({
      message: [
        `${pgdata} was made by PostgreSQL ${existing}, but the one found here is PostgreSQL ${binaries.major}`,
        `(${binaries.postgres}). Install PostgreSQL ${existing}, move the data with pg_upgrade or pg_dump, or delete`,
        "the directory to start afresh."
      ].join("\n")
    })
  }
  const runAs = yield* chooseRunAs(binaries.postgres, dataDirectory, pgdata)
  if (existing === undefined) yield* initialise(cluster, binaries, runAs)
  // Any user who can open the socket is superuser: a password would have to stand in a file beside it.
  yield* attempt("Could not create the directory of the socket", () => {
    if (!isDirectory(socketDirectory)) fs.mkdirSync(socketDirectory)
    fs.chmodSync(socketDirectory, 0o700)
  })
  yield* giveTo(runAs, socketDirectory)
  return { binaries, runAs } satisfies Installation
})

/** Fails if the data directory has no database. It changes nothing, and needs no lock. */
export const requireCluster = Effect.fnUntraced(function*(dataDirectory: string) {
  const exists = yield* attempt(
    "Could not look for a database",
    () => isDirectory(path.join(dataDirectory, pgdataName))
  )
  if (exists) return
  return yield* new LocalPostgresError({
    message: `no database in ${dataDirectory}: name its directory by --data-dir or DATA_DIR, or create one by `
      + "`financial-agents-gateway serve`"
  })
})

/** False: there is nothing. Throws for anything but a directory. */
const isDirectory = (directory: string): boolean => {
  const stat = fs.lstatSync(directory, { throwIfNoEntry: false })
  if (stat?.isDirectory() === false) throw new Error(`${directory} is not a directory. Remove it.`)
  return stat !== undefined
}

/** The major version of PostgreSQL that made the cluster. */
export const majorOf = ({ pgdata }: Cluster): Effect.Effect<number, LocalPostgresError> =>
  attempt(`${pgdata} is not a PostgreSQL data directory`, () => {
    const version = readFile(path.join(pgdata, "PG_VERSION"))
    if (version === undefined) throw new Error("PG_VERSION is missing")
    return Number(version)
  })

/** Removes a directory with its content. Retries, because a program may still write there. */
const remove = (directory: string) =>
  Effect.retry(run("rm", ["-rf", "--", directory]), { times: 100, schedule: Schedule.spaced("100 millis") })

const unfinishedPrefix = "pgdata.init-"

const removeAbandoned = Effect.fnUntraced(function*(dataDirectory: string) {
  const names = yield* attempt("Could not read the data directory", () => fs.readdirSync(dataDirectory))
  for (const name of names) if (name.startsWith(unfinishedPrefix)) yield* remove(path.join(dataDirectory, name))
})

/** Creates the cluster under another name and renames it. If it is killed, `pgdata` is complete or absent. */
const initialise = Effect.fnUntraced(function*({ dataDirectory, pgdata }: Cluster, { initdb }: Binaries, runAs: RunAs) {
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
    yield* attempt("Could not create the database cluster", () => fs.mkdirSync(unfinished, { mode: 0o700 }))
    yield* giveTo(runAs, unfinished)
    yield* run(command.file, command.args, command.identity)
    // `initdb` has synced the content, but not the new name.
    yield* attempt("Could not make the new database cluster durable", () => {
      fs.renameSync(unfinished, pgdata)
      const descriptor = fs.openSync(dataDirectory, "r")
      fs.fsyncSync(descriptor)
      fs.closeSync(descriptor)
    })
  }).pipe(Effect.onError(() => Effect.ignore(remove(unfinished))))
})
