import * as Effect from "effect/Effect"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Cluster, type Installation, pgdataOwner, port } from "./Cluster.ts"
import { environment } from "./Command.ts"
import { ownerOf } from "./DirectoryOwner.ts"
import { attempt, LocalPostgresError } from "./LocalPostgresError.ts"
import { openOrCreate, openUnlessMissing, readFrom, readOwned, remove } from "./OwnedFiles.ts"
import { commandOf } from "./RunAs.ts"

/** PostgreSQL's main process, started by this process or by a process that has ended. */
export interface Postmaster {
  readonly pid: number
  readonly isAlive: () => boolean
}

/**
 * The file `postmaster.pid` that a server writes into its data directory:
 * https://www.postgresql.org/docs/current/storage-file-layout.html
 */
export interface PidFile {
  readonly pid: number
  readonly socketDirectory: string
  /** Whether the server accepts connections. Stale after a server was killed: its file stays. */
  readonly ready: boolean
}

/** Reads `postmaster.pid`. `undefined` when there is none, or one that is only half written. */
export const readPidFile = Effect.fnUntraced(function*(cluster: Cluster) {
  const owner = yield* pgdataOwner(cluster)
  if (owner === undefined) return undefined
  return yield* attempt("Could not read the server's pid file", (): PidFile | undefined => {
    const lines = (readOwned(pidFileOf(cluster), owner) ?? "").split("\n")
    const [pid, socketDirectory, status] = [Number(lines[0]), lines[4] ?? "", lines[7] ?? ""]
    return Number.isInteger(pid) && pid > 1 ? { pid, socketDirectory, ready: status.trim() === "ready" } : undefined
  })
})

const pidFileOf = (cluster: Cluster) => path.join(cluster.pgdata, "postmaster.pid")

/** The living server of this cluster that an earlier owner left behind, if there is one. */
export const findOrphan = Effect.fnUntraced(function*(cluster: Cluster) {
  const [owner, file] = [yield* pgdataOwner(cluster), yield* readPidFile(cluster)]
  if (owner === undefined || file === undefined || !worksIn(file.pid, cluster.pgdata, owner)) return undefined
  return { pid: file.pid, isAlive: () => worksIn(file.pid, cluster.pgdata, owner) } satisfies Postmaster
})

/**
 * Whether the process is alive and is a server of this cluster: a postmaster works in its data directory, as the user
 * to whom that belongs. The pid alone proves nothing: after a crash or in a new container it may belong to another
 * program, and the owner of the directory may have written any number into the file. False for a zombie.
 */
const worksIn = (pid: number, pgdata: string, owner: number): boolean => {
  try {
    if (process.platform !== "linux") {
      const said = execFileSync("ps", ["-ww", "-o", "uid=,command=", "-p", String(pid)], { encoding: "utf8" })
      return Number.parseInt(said, 10) === owner && said.includes(` -D ${pgdata} -c `)
    }
    const uids = /^Uid:(.*)$/m.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]?.trim().split(/\s+/).map(
      Number
    )
    // Compared by identity: a bind mount or another namespace may give the same directory another path.
    const [theirs, ours] = [fs.statSync(`/proc/${pid}/cwd`), fs.lstatSync(pgdata)]
    return uids?.every((uid) => uid === owner) === true && theirs.dev === ours.dev && theirs.ino === ours.ino
  } catch {
    return false
  }
}

/**
 * Lets a server start although a killed one left lock files that name a process of some other program.
 *
 * PostgreSQL would take that program for a running server. Deleting `postmaster.pid` would also delete the id of the
 * shared memory by which PostgreSQL notices that the dead server's children still write. So the file stays, and names
 * this process instead: PostgreSQL ignores its own parent. The socket's lock file carries no such id. Only the holder
 * of the lock may call it, after `findOrphan` found nothing.
 */
const disownStaleFiles = Effect.fnUntraced(function*(cluster: Cluster, socketDirectory: string) {
  const owner = yield* ownerOf(cluster.dataDirectory)
  const isEmpty = yield* attempt(
    "Could not clear the lock file of a server that is gone",
    () => putPid(pidFileOf(cluster), owner.uid) === "empty"
  )
  if (isEmpty) yield* remove(pidFileOf(cluster), owner)
  yield* remove(path.join(socketDirectory, `.s.PGSQL.${port}.lock`), owner)
})

/** Puts the id of this process in the first line. */
const putPid = (file: string, owner: number) => {
  const descriptor = openUnlessMissing(file, fs.constants.O_RDWR, owner)
  if (descriptor === undefined) return "missing"
  try {
    const [pid, ...rest] = readFrom(descriptor).split("\n")
    if (pid === "") return "empty"
    fs.ftruncateSync(descriptor)
    fs.writeSync(descriptor, [process.pid, ...rest].join("\n"), 0)
    return "put"
  } finally {
    fs.closeSync(descriptor)
  }
}

const defaults = { max_connections: "100", shared_buffers: "128MB", timezone: "UTC", log_timezone: "UTC" }

/** Settings that the caller cannot change: the durability of the ledger and the supervisor depend on them. */
const fixed = (socketDirectory: string) => ({
  fsync: "on",
  full_page_writes: "on",
  listen_addresses: "",
  port: String(port),
  // The setting is a list: quoted, so that a comma in the path does not end the item.
  unix_socket_directories: `"${socketDirectory.replaceAll(`"`, `""`)}"`,
  unix_socket_permissions: "0700",
  log_destination: "stderr",
  logging_collector: "off"
})

/** A list and not a record: the last one of a name wins, and PostgreSQL takes `FSYNC` for the same name as `fsync`. */
const optionsOf = (socketDirectory: string, settings: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  [defaults, settings, fixed(socketDirectory)]
    .flatMap((group) => Object.entries(group))
    .flatMap(([name, value]) => ["-c", `${name}=${value}`])

/**
 * Starts a server on a prepared cluster, and returns before it answers. It runs in a process group of its own, so that
 * Ctrl-C in the terminal does not end it before the gateway has drained.
 */
export const spawnPostmaster = Effect.fnUntraced(function*(
  cluster: Cluster,
  { binaries, runAs, socketDirectory }: Installation,
  settings: Readonly<Record<string, string>>
) {
  yield* disownStaleFiles(cluster, socketDirectory)
  const args = ["-D", cluster.pgdata, ...optionsOf(socketDirectory, settings)]
  const command = commandOf(runAs, binaries.postgres, args)
  const { O_APPEND, O_WRONLY } = fs.constants
  const log = yield* openOrCreate(cluster.log, O_WRONLY | O_APPEND, yield* ownerOf(cluster.dataDirectory))
  return yield* Effect.callback<Postmaster, LocalPostgresError>((resume) => {
    const child = spawn(command.file, command.args, {
      // Not `pgdata`: PostgreSQL changes to it with the server's rights. Spawning there would use root's rights.
      cwd: "/",
      detached: true,
      env: environment(),
      stdio: ["ignore", log, log],
      ...command.identity
    })
    fs.closeSync(log)
    child.once(
      "error",
      (cause) =>
        resume(Effect.fail(new LocalPostgresError({ message: `Could not start PostgreSQL: ${cause.message}`, cause })))
    )
    const { pid } = child
    if (pid === undefined) return
    resume(Effect.succeed({ pid, isAlive: () => child.exitCode === null && child.signalCode === null }))
  })
})

/** The signals of a shutdown with their timeouts in milliseconds: fast shutdown, immediate shutdown, kill. */
const shutdowns = [["SIGINT", 10_000], ["SIGQUIT", 10_000], ["SIGKILL", 5_000]] as const

/** Stops a server and waits until it is gone. Its clients are disconnected, their open transactions rolled back. */
export const stop = Effect.fnUntraced(function*(postmaster: Postmaster) {
  for (const [signal, patience] of shutdowns) {
    yield* Effect.sync(() => send(postmaster, signal))
    const gone = yield* waitUntilGone(postmaster).pipe(
      Effect.as(true),
      Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed(false) })
    )
    if (gone) return
    yield* Effect.logWarning(`PostgreSQL (pid ${postmaster.pid}) did not stop on ${signal} within ${patience} ms`)
  }
})

/** Sends a signal to a running server. */
export const send = (postmaster: Postmaster, signal: NodeJS.Signals): void => {
  try {
    if (postmaster.isAlive()) process.kill(postmaster.pid, signal)
  } catch {
    // It ended between the check and the signal.
  }
}

/** Returns when the server has ended. */
export const waitUntilGone = Effect.fnUntraced(function*(postmaster: Postmaster, everyMillis = 10) {
  while (postmaster.isAlive()) yield* Effect.sleep(everyMillis)
})
