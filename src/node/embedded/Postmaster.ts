import * as Effect from "effect/Effect"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Cluster, type Installation, port } from "./Cluster.ts"
import { commandOf } from "./Installation.ts"
import { attempt, environment, LocalPostgresError, openFile, readFile } from "./System.ts"

/** PostgreSQL's main process, started by this process or by a process that has ended. */
export interface Postmaster {
  readonly pid: number
  readonly isAlive: () => boolean
}

const pidFileOf = ({ pgdata }: Cluster) => path.join(pgdata, "postmaster.pid")

/**
 * Reads the file `postmaster.pid` that a server writes into its data directory, and that a killed server leaves there:
 * https://www.postgresql.org/docs/current/storage-file-layout.html
 *
 * `undefined` when there is none, or one that is only half written.
 */
export const readPidFile = (cluster: Cluster) =>
  attempt("Could not read the server's pid file", () => {
    // Not through a symbolic link in place of the directory.
    if (fs.lstatSync(cluster.pgdata, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined
    const lines = (readFile(pidFileOf(cluster)) ?? "").split("\n")
    const pid = Number(lines[0])
    return Number.isInteger(pid) && pid > 1 ? { pid, ready: lines[7]?.trim() === "ready" } : undefined
  })

/** The living server of this cluster that an earlier owner left behind, if there is one. */
export const findOrphan = Effect.fnUntraced(function*(cluster: Cluster) {
  const pid = (yield* readPidFile(cluster))?.pid
  if (pid === undefined) return undefined
  const orphan: Postmaster = { pid, isAlive: () => worksIn(pid, cluster.pgdata) }
  return orphan.isAlive() ? orphan : undefined
})

/**
 * Whether the process is alive and is a server of this cluster: a postmaster works in its data directory, as the user
 * to whom that belongs. The pid alone proves nothing: after a crash or in a new container it may belong to another
 * program. False for a zombie.
 */
const worksIn = (pid: number, pgdata: string): boolean => {
  try {
    const ours = fs.lstatSync(pgdata)
    if (process.platform !== "linux") {
      const said = execFileSync("ps", ["-ww", "-o", "uid=,command=", "-p", String(pid)], { encoding: "utf8" })
      return Number.parseInt(said, 10) === ours.uid && said.includes(` -D ${pgdata} -c `)
    }
    // Compared by identity: a bind mount or another namespace may give the same directory another path.
    const theirs = fs.statSync(`/proc/${pid}/cwd`)
    return fs.statSync(`/proc/${pid}`).uid === ours.uid && theirs.dev === ours.dev && theirs.ino === ours.ino
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
const disownStaleFiles = (cluster: Cluster) =>
  attempt("Could not clear the lock file of a server that is gone", () => {
    fs.rmSync(path.join(cluster.socketDirectory, `.s.PGSQL.${port}.lock`), { force: true })
    const descriptor = openFile(pidFileOf(cluster), fs.constants.O_RDWR)
    if (descriptor === undefined) return
    const [pid, ...rest] = fs.readFileSync(descriptor, "utf8").split("\n")
    fs.ftruncateSync(descriptor)
    if (pid !== "") fs.writeSync(descriptor, [process.pid, ...rest].join("\n"), 0)
    fs.closeSync(descriptor)
    if (pid === "") fs.rmSync(pidFileOf(cluster))
  })

const defaults = { max_connections: "100", shared_buffers: "128MB", timezone: "UTC", log_timezone: "UTC" }

/** Settings that the caller cannot change: the durability of the ledger and this folder depend on them. */
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

/** The log, open for writing, and the position from which on this server writes. */
const openLog = ({ log }: Cluster) =>
  attempt(`Could not open ${log}`, () => {
    const descriptor = openFile(log, fs.constants.O_WRONLY | fs.constants.O_APPEND | fs.constants.O_CREAT)!
    return { descriptor, logStart: fs.fstatSync(descriptor).size }
  })

/**
 * Starts a server on a prepared cluster, and returns before it answers. It runs in a process group of its own, so that
 * Ctrl-C in the terminal does not end it before the gateway has drained.
 */
export const spawnPostmaster = Effect.fnUntraced(function*(
  cluster: Cluster,
  { binaries, runAs }: Installation,
  settings: Readonly<Record<string, string>>
) {
  yield* disownStaleFiles(cluster)
  const args = ["-D", cluster.pgdata, ...optionsOf(cluster.socketDirectory, settings)]
  const command = commandOf(runAs, binaries.postgres, args)
  const { descriptor, logStart } = yield* openLog(cluster)
  return yield* Effect.callback<Postmaster & { readonly logStart: number }, LocalPostgresError>((resume) => {
    const child = spawn(command.file, command.args, {
      // Not `pgdata`: PostgreSQL changes to it with the server's rights. Spawning there would use root's rights.
      cwd: "/",
      detached: true,
      env: environment(),
      stdio: ["ignore", descriptor, descriptor],
      ...command.identity
    })
    fs.closeSync(descriptor)
    child.once("error", (cause) => {
      resume(Effect.fail(new LocalPostgresError({ message: `Could not start PostgreSQL: ${cause.message}`, cause })))
    })
    const { pid } = child
    if (pid === undefined) return
    const isAlive = () => child.exitCode === null && child.signalCode === null
    resume(Effect.succeed({ pid, logStart, isAlive }))
  })
})

/** The signals of a shutdown with their timeouts in milliseconds: fast shutdown, immediate shutdown, kill. */
const shutdowns = [["SIGINT", 10_000], ["SIGQUIT", 10_000], ["SIGKILL", 5_000]] as const

/** Stops a server and waits until it is gone. Its clients are disconnected, their open transactions rolled back. */
export const stop = Effect.fnUntraced(function*(postmaster: Postmaster) {
  for (const [signal, patience] of shutdowns) {
    send(postmaster, signal)
    yield* Effect.timeoutOption(waitUntilGone(postmaster), patience)
    if (!postmaster.isAlive()) return
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
