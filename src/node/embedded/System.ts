/** Programs and files of the local PostgreSQL, for a process that may be root. No file is opened through a symbolic link. */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { execFile, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

/**
 * The local PostgreSQL could not be found, started or reached.
 *
 * `message` is written for the person at the terminal: it names the failure, quotes the end of the server's log if
 * there is one, and names the remedy (usually: set `DATABASE_URL`).
 */
export class LocalPostgresError extends Schema.TaggedError<LocalPostgresError>()("LocalPostgresError", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** The last sentence of messages about machines that cannot run PostgreSQL. */
export const useYourOwn = "Set DATABASE_URL to use a PostgreSQL server of your own."

/** Runs a synchronous system call; a throw becomes a `LocalPostgresError` that starts with `doing`. */
export const attempt = <A>(doing: string, call: () => A): Effect.Effect<A, LocalPostgresError> =>
  Effect.try({ try: call, catch: failed(doing) })

const failed = (doing: string) => (cause: unknown) =>
  new LocalPostgresError({ message: `${doing}: ${cause instanceof Error ? cause.message : String(cause)}`, cause })

/** A user and group to become before a program is executed. Only root can. */
export interface Identity {
  readonly uid: number
  readonly gid: number
}

/**
 * The whole environment of the programs started here.
 *
 * The gateway's own variables stay out: they hold secrets, and a stray `PGDATA` or `PGOPTIONS` would change PostgreSQL.
 * `LC_ALL=C` keeps the server's messages in English, which `Server` reads.
 */
export const environment = (): Record<string, string> => {
  const { LD_LIBRARY_PATH, PATH } = process.env
  return { ...PATH && { PATH }, ...LD_LIBRARY_PATH && { LD_LIBRARY_PATH }, LC_ALL: "C", TZ: "UTC" }
}

/**
 * Runs a short program to its end and returns its standard output. Fails with its standard error when it exits with
 * anything but 0. On interruption the program is terminated and waited for.
 */
export const run = (
  file: string,
  args: ReadonlyArray<string>,
  identity?: Identity
): Effect.Effect<string, LocalPostgresError> =>
  Effect.callback((resume) => {
    const onEnd = (cause: Error | null, stdout: string, stderr: string) =>
      resume(
        cause === null
          ? Effect.succeed(stdout)
          : Effect.fail(new LocalPostgresError({ message: `${file} failed: ${stderr.trim() || cause.message}`, cause }))
      )
    try {
      const child = execFile(file, args, { env: environment(), cwd: "/", ...identity }, onEnd)
      return Effect.callback((ended) => {
        if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return ended(Effect.void)
        child.once("close", () => ended(Effect.void))
        child.kill("SIGTERM")
      })
    } catch (cause) {
      // Node throws some failures to start, such as a forbidden change of user, instead of passing them on.
      onEnd(cause instanceof Error ? cause : new Error(String(cause)), "", "")
    }
  })

export const isRoot = (): boolean => process.geteuid?.() === 0

/** Root, and in a user namespace the users outside of it, to whom `/` belongs and who all have one id. */
export const isRoots = (uid: number): boolean => uid === 0 || uid === fs.lstatSync("/").uid

const isWritableByOthers = ({ gid, mode }: fs.Stats) => (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== 0)

/** Throws if another user than root could exchange the directory, a directory above it, or a symbolic link on the way. */
const refuseExchangeable = (file: string): void => {
  const parent = path.dirname(file)
  if (parent !== file) refuseExchangeable(parent)
  const stat = fs.lstatSync(file)
  if (!isRoots(stat.uid)) {
    throw new Error([
      `user ${stat.uid} could exchange it, because ${file} belongs to that user. As root, use a data directory below`,
      "directories of root (DATA_DIR), or start as that user."
    ].join("\n"))
  }
  if (stat.isSymbolicLink()) return refuseExchangeable(path.resolve(fs.realpathSync(parent), fs.readlinkSync(file)))
  if (!stat.isDirectory()) throw new Error(`${file} is not a directory`)
  // In a sticky directory other users can add names, but exchange none.
  if (isWritableByOthers(stat) && (stat.mode & 0o1000) === 0) {
    throw new Error(`other users may write ${file}. Take that from them (chmod go-w), or use another data directory`)
  }
}

/** Another process may create it meanwhile. */
const createDirectory = (directory: string): void => {
  try {
    fs.mkdirSync(directory, { mode: 0o700 })
  } catch (cause) {
    if (!hasCode(cause, "EEXIST")) throw cause
  }
}

/**
 * Creates the data directory (mode 0700) if needed, and returns its real path. Permissions do not restrict root, so root refuses a
 * directory that another user could exchange or write.
 */
export const openDataDirectory = Effect.fnUntraced(function*(directory: string) {
  return yield* attempt(`Could not use the data directory ${directory}`, () => {
    const missing: Array<string> = []
    let existing = directory
    for (; !fs.lstatSync(existing, { throwIfNoEntry: false }); existing = path.dirname(existing)) {
      missing.unshift(existing)
    }
    if (isRoot()) refuseExchangeable(existing)
    // One by one: `recursive` never ends where the system creates no directory and says ENOENT, such as in /proc.
    for (const absent of missing) createDirectory(absent)
    const dataDirectory = fs.realpathSync(directory)
    if (isRoot() && isWritableByOthers(fs.lstatSync(dataDirectory))) {
      throw new Error(`other users may write ${dataDirectory}. Use one that only one user may write (mode 0700)`)
    }
    return dataDirectory
  })
})

const hasCode = (cause: unknown, ...codes: ReadonlyArray<string>): boolean =>
  Predicate.hasProperty(cause, "code") && codes.includes(String(cause.code))

const refuseToOpen = (file: string, what: string, cause?: unknown): never => {
  throw new Error(`${file} is ${what}. Remove it.`, { cause })
}

const openHere = (file: string, flags: number): number | undefined => {
  try {
    // Without blocking: opening a pipe without another end would block the whole process.
    return fs.openSync(file, flags | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK, 0o600)
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return undefined
    // FreeBSD returns EMLINK for a link. ENXIO: a pipe without a reader, or a socket.
    if (hasCode(cause, "ELOOP", "EMLINK")) return refuseToOpen(file, "a symbolic link", cause)
    if (hasCode(cause, "ENXIO")) return refuseToOpen(file, "not a regular file", cause)
    throw cause
  }
}

/** Opens a regular file, and creates it with mode 0600 by `O_CREAT`. Undefined: there is none. Throws for links, pipes and sockets. */
export const openFile = (file: string, flags: number): number | undefined => {
  const descriptor = openHere(file, flags)
  if (descriptor === undefined) return undefined
  const stat = fs.fstatSync(descriptor)
  if (stat.isFile() && stat.nlink === 1) return descriptor
  fs.closeSync(descriptor)
  // It was removed meanwhile: a server that starts replaces its pid file.
  if (stat.nlink === 0) return openFile(file, flags)
  return refuseToOpen(file, stat.nlink === 1 ? "not a regular file" : "a hard link")
}

/** Reads a file that `openFile` opens, from a position on. Undefined: there is none. */
export const readFile = (file: string, from = 0): string | undefined => {
  const descriptor = openFile(file, fs.constants.O_RDONLY)
  if (descriptor === undefined) return undefined
  try {
    return fs.readFileSync(descriptor).subarray(from).toString("utf8")
  } finally {
    fs.closeSync(descriptor)
  }
}

/** `O_EXLOCK` of macOS and the BSDs: opens and locks the file in one step. Node has no name for it. */
const openWithLock = process.platform === "linux" ? 0 : 0x20

/**
 * Takes the lock of a data directory and holds it until the scope closes. False when a process, this one included, holds it
 * already.
 *
 * It is the kernel's advisory lock (`flock`) on the file `lock`, which is never removed. Only a user who can open the file can
 * take it, and the kernel frees it when the process ends, however it ends. Containers of one machine share it with the volume.
 */
export const tryLock = Effect.fnUntraced(function*(
  dataDirectory: string
): Effect.fn.Return<boolean, LocalPostgresError, Scope.Scope> {
  const file = path.join(dataDirectory, "lock")
  const open = attempt(
    `Could not open ${file}`,
    () => openFile(file, fs.constants.O_RDWR | fs.constants.O_CREAT | openWithLock)
  ).pipe(Effect.catchIf(({ cause }) => hasCode(cause, "EAGAIN"), () => Effect.undefined))
  const descriptor = yield* open
  if (descriptor === undefined) return false
  const close = Effect.sync(() => fs.closeSync(descriptor))
  const isTaken = openWithLock !== 0 || (yield* Effect.onError(flock(descriptor), () => close))
  yield* isTaken ? Effect.addFinalizer(() => close) : close
  return isTaken
}, Effect.uninterruptible)

/** As `tryLock`, but asks again until no other process holds the lock. */
export const waitForLock = (dataDirectory: string): Effect.Effect<void, LocalPostgresError, Scope.Scope> =>
  Effect.gen(function*() {
    while (!(yield* tryLock(dataDirectory))) yield* Effect.sleep("500 millis")
  })

/**
 * Locks an open file. False when another process holds the lock.
 *
 * Node has no `flock`. The lock belongs to the open file, which the program `flock` of util-linux or BusyBox shares with this process:
 * it locks and exits, and this process keeps the lock.
 */
const flock = (descriptor: number): Effect.Effect<boolean, LocalPostgresError> =>
  Effect.callback((resume) => {
    const child = spawn("flock", ["-n", "3"], {
      cwd: "/",
      env: environment(),
      stdio: ["ignore", "ignore", "pipe", descriptor]
    })
    let said = ""
    child.stderr?.setEncoding("utf8").on("data", (text: string) => said += text)
    const fail = (reason: string) =>
      resume(Effect.fail(new LocalPostgresError({ message: `Could not lock the data directory: ${reason}` })))
    child.once("error", ({ message }) => fail(`${message}. Install util-linux. ${useYourOwn}`))
    child.once("close", (code) => {
      if (code === 0 || (code === 1 && said === "")) return resume(Effect.succeed(code === 0))
      fail(said.trim() || "the program flock was stopped")
    })
  })
