/**
 * Files in a directory that may belong to another user, for a supervisor that may be root.
 *
 * Existing files are opened without following a symbolic link, and only if they are regular files of the owner. Changes
 * of the directory use the owner's rights. So the owner can make root open or change only files that the owner can open
 * or change without root.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import * as fs from "node:fs"
import { run } from "./Command.ts"
import type { Owner } from "./DirectoryOwner.ts"
import { attempt, attemptPromise, type LocalPostgresError } from "./LocalPostgresError.ts"

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants

/**
 * Opens an existing file and returns its descriptor. Throws for a symbolic link, for anything but a regular file, and
 * for a file of another user. Pass root as `owner` for a directory of root: only root writes there, so a file of any
 * user is allowed.
 */
export const openOwned = (file: string, flags: number, owner: number): number => {
  const descriptor = openHere(file, flags)
  try {
    const stat = fs.fstatSync(descriptor)
    if (!stat.isFile()) throw new Error(`${file} is not a regular file. Remove it.`)
    if (stat.uid !== owner && owner !== 0) {
      throw new Error(`${file} belongs to user ${stat.uid}, but its directory to user ${owner}. Remove the file.`)
    }
    return descriptor
  } catch (cause) {
    fs.closeSync(descriptor)
    throw cause
  }
}

/** Opens without blocking: opening a pipe without another end would block the whole process. */
const openHere = (file: string, flags: number) => {
  try {
    return fs.openSync(file, flags | O_NOFOLLOW | O_NONBLOCK)
  } catch (cause) {
    // FreeBSD returns EMLINK for a link. ENXIO: a pipe without a reader, or a socket.
    const isLink = hasCode(cause, "ELOOP") || hasCode(cause, "EMLINK")
    if (isLink) throw new Error(`${file} is a symbolic link. Remove it.`, { cause })
    if (hasCode(cause, "ENXIO")) throw new Error(`${file} is not a regular file. Remove it.`, { cause })
    throw cause
  }
}

/** Reads an existing file as `openOwned` opens it, from a position on. `undefined` when there is none. */
export const readOwned = (file: string, owner: number, from = 0): string | undefined => {
  const descriptor = openUnlessMissing(file, O_RDONLY, owner)
  if (descriptor === undefined) return undefined
  try {
    return readFrom(descriptor, from)
  } finally {
    fs.closeSync(descriptor)
  }
}

/** Most bytes read, from the end. The owner of a file controls its length. */
const mostRead = 1024 * 1024

/** Reads an open file from a position on: the last MiB, if it is longer. */
export const readFrom = (descriptor: number, from = 0): string => {
  const { size } = fs.fstatSync(descriptor)
  const start = Math.max(from, size - mostRead)
  const bytes = Buffer.alloc(Math.max(0, size - start))
  return bytes.subarray(0, fs.readSync(descriptor, bytes, 0, bytes.length, start)).toString("utf8")
}

/** As `openOwned`. `undefined` when there is no such file. */
export const openUnlessMissing = (file: string, flags: number, owner: number): number | undefined => {
  try {
    return openOwned(file, flags, owner)
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return undefined
    throw cause
  }
}

/** Opens a file as `openOwned` does, and creates it before (mode 0600, of the owner) if needed. */
export const openOrCreate = (
  file: string,
  flags: number,
  owner: Owner
): Effect.Effect<number, LocalPostgresError> =>
  Effect.gen(function*() {
    const existing = yield* attempt(`Could not open ${file}`, () => openUnlessMissing(file, flags, owner.uid))
    if (existing !== undefined) return existing
    yield* createFile(file, owner)
    return yield* attempt(`Could not open ${file}`, () => openOwned(file, flags, owner.uid))
  })

/** Creates a file. If another process has created it meanwhile, that file stays. */
const createFile = (file: string, { identity }: Owner) =>
  identity === undefined
    ? attempt(`Could not create ${file}`, () => fs.closeSync(fs.openSync(file, createOnly, 0o600))).pipe(
      Effect.catchIf(({ cause }) => hasCode(cause, "EEXIST"), () => Effect.void)
    )
    : run("/bin/sh", ["-c", `umask 077 && : >> "$1"`, "sh", file], identity)

const createOnly = fs.constants.O_CREAT | fs.constants.O_EXCL | fs.constants.O_WRONLY

/** Creates a directory with mode 0700. */
export const makeDirectory = (directory: string, { identity }: Owner): Effect.Effect<unknown, LocalPostgresError> =>
  identity === undefined
    ? attempt(`Could not create ${directory}`, () => fs.mkdirSync(directory, { mode: 0o700 }))
    : run("mkdir", ["-m", "700", "--", directory], identity)

/** Renames a file or directory to a name that does not exist. */
export const rename = (from: string, to: string, { identity }: Owner): Effect.Effect<unknown, LocalPostgresError> =>
  identity === undefined
    ? attempt(`Could not rename ${from}`, () => fs.renameSync(from, to))
    : run("mv", ["--", from, to], identity)

/** Removes a file, or a directory with its content. Retries, because a program may still write there. */
export const remove = (place: string, { identity }: Owner): Effect.Effect<unknown, LocalPostgresError> =>
  (identity === undefined
    ? attemptPromise(`Could not remove ${place}`, () => fs.promises.rm(place, { recursive: true, force: true }))
    : run("rm", ["-rf", "--", place], identity)).pipe(
      Effect.retry({ times: 100, schedule: Schedule.spaced("100 millis") })
    )

/** Removes a directory that is empty. */
export const removeEmpty = (directory: string, { identity }: Owner): Effect.Effect<unknown, LocalPostgresError> =>
  identity === undefined
    ? attempt(`Could not remove ${directory}`, () => fs.rmdirSync(directory))
    : run("rmdir", ["--", directory], identity)

export const hasCode = (cause: unknown, code: string): boolean =>
  Predicate.hasProperty(cause, "code") && cause.code === code
