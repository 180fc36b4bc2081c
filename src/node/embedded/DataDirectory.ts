/**
 * The data directory and the files in it, for a process that may be root.
 *
 * The directory belongs to root or to another user. All changes of it are made with the owner's rights, and only regular
 * files of the owner are opened in it, without following symbolic links. So the owner can make root open or change only what
 * the owner can open or change without root.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Identity, run } from "./Command.ts"
import { attempt, type LocalPostgresError } from "./LocalPostgresError.ts"

/** The user to whom a data directory and everything in it belongs. */
export interface Owner {
  readonly uid: number
  /** The user and group to become to act with the owner's rights. Absent if this process has them already. */
  readonly identity?: Identity
}

const isRoot = () => process.geteuid?.() === 0

/**
 * The users who can exchange everything: root, and in a user namespace the users outside of it, to whom `/` belongs and who
 * all have one id.
 */
const isRoots = (uid: number) => uid === 0 || uid === fs.lstatSync("/").uid

/** The modes of another user's directories are that user's concern: root acts there with the user's rights alone. */
const isWritableByOthers = ({ gid, mode, uid }: fs.Stats) =>
  isRoots(uid) && ((mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== 0))

/** The owners of a directory, and of all directories and symbolic links on the way to it: they can exchange it. */
const ownersOf = (place: string): ReadonlyArray<number> => {
  const parent = path.dirname(place)
  const above = parent === place ? [] : ownersOf(parent)
  const stat = fs.lstatSync(place)
  if (stat.isSymbolicLink()) {
    return [...above, stat.uid, ...ownersOf(path.resolve(fs.realpathSync(parent), fs.readlinkSync(place)))]
  }
  if (!stat.isDirectory()) throw new Error(`${place} is not a directory`)
  // In a sticky directory other users can add names, but exchange none.
  if (isWritableByOthers(stat) && (stat.mode & 0o1000) === 0) {
    throw new Error(`other users may write ${place}. Take that from them (chmod go-w), or use another data directory`)
  }
  return [...above, stat.uid]
}

/** The owner of a directory. Throws if yet another user than root could exchange it. */
const soleOwnerOf = (directory: string): number => {
  const stat = fs.statSync(directory)
  const owner = isRoots(stat.uid) ? 0 : stat.uid
  const stranger = ownersOf(directory).find((uid) => !isRoots(uid) && uid !== owner)
  if (stranger !== undefined) {
    throw new Error([
      `${directory} belongs to user ${owner}, but user ${stranger} could exchange it, because a directory or a symbolic link`,
      "on the way belongs to that user. Use a data directory below directories of root, or set DATABASE_URL."
    ].join("\n"))
  }
  return owner
}

/**
 * The owner of a data directory: for a process that is not root, this process. Fails for root if yet another user could
 * exchange the directory, because permissions do not restrict root.
 */
export const ownerOf = Effect.fnUntraced(function*(dataDirectory: string) {
  if (!isRoot()) return { uid: process.geteuid?.() ?? 0 } satisfies Owner
  const uid = yield* attempt("Could not use the data directory", () => soleOwnerOf(dataDirectory))
  return uid === 0 ? { uid } satisfies Owner : { uid, identity: yield* identityOf(uid) } satisfies Owner
})

/** A user with its own group. A user without an entry in the user database gets the group of the same number. */
const identityOf = (uid: number): Effect.Effect<Identity> =>
  run("id", ["-g", String(uid)]).pipe(
    Effect.map(Number),
    Effect.orElseSucceed(() => uid),
    Effect.map((gid) => ({ uid, gid }))
  )

/** Creates the data directory (mode 0700) if needed, for the owner of the directory above, and returns its real path. */
export const openDataDirectory = Effect.fnUntraced(function*(directory: string) {
  const existing = yield* attempt("Could not open the data directory", () => {
    let place = directory
    while (!fs.lstatSync(place, { throwIfNoEntry: false })) place = path.dirname(place)
    return place
  })
  const { identity } = yield* ownerOf(existing)
  if (existing !== directory) yield* privately(`mkdir -p -- "$1"`, directory, identity)
  const dataDirectory = yield* attempt("Could not open the data directory", () => fs.realpathSync(directory))
  const { uid } = yield* ownerOf(dataDirectory)
  yield* attempt("Could not use the data directory", () => {
    if (isRoot() && uid === 0 && isWritableByOthers(fs.lstatSync(dataDirectory))) {
      throw new Error(`other users may write ${dataDirectory}. Use one that only one user may write (mode 0700)`)
    }
  })
  return dataDirectory
})

/** Runs a line of shell on a path. What it creates is closed to other users. */
const privately = (line: string, place: string, identity: Identity | undefined) =>
  run("/bin/sh", ["-c", `umask 077 && ${line}`, "sh", place], identity)

export const hasCode = (cause: unknown, ...codes: ReadonlyArray<string>): boolean =>
  Predicate.hasProperty(cause, "code") && codes.includes(String(cause.code))

/**
 * Opens an existing file of the owner. Undefined when there is none. Throws for a symbolic link, for anything but a regular
 * file, and for a file of another user. In a directory of root, which only root writes, a file of any user is allowed.
 */
export const openOwned = (file: string, flags: number, owner: number): number | undefined => {
  const descriptor = openHere(file, flags)
  if (descriptor === undefined) return undefined
  const stat = fs.fstatSync(descriptor)
  if (stat.isFile() && (stat.uid === owner || owner === 0)) return descriptor
  fs.closeSync(descriptor)
  const belongs = `belongs to user ${stat.uid}, but its directory to user ${owner}`
  throw new Error(`${file} ${stat.isFile() ? belongs : "is not a regular file"}. Remove it.`)
}

/** Opens without blocking: opening a pipe without another end would block the whole process. */
const openHere = (file: string, flags: number) => {
  try {
    return fs.openSync(file, flags | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK)
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return undefined
    // FreeBSD returns EMLINK for a link. ENXIO: a pipe without a reader, or a socket.
    if (hasCode(cause, "ELOOP", "EMLINK")) throw new Error(`${file} is a symbolic link. Remove it.`, { cause })
    if (hasCode(cause, "ENXIO")) throw new Error(`${file} is not a regular file. Remove it.`, { cause })
    throw cause
  }
}

/** Opens a file as `openOwned` does, and creates it before (mode 0600) if needed. */
export const openOrCreate = Effect.fnUntraced(function*(file: string, flags: number, { identity, uid }: Owner) {
  const open = attempt(`Could not open ${file}`, () => openOwned(file, flags, uid))
  const existing = yield* open
  if (existing !== undefined) return existing
  yield* privately(`: >> "$1"`, file, identity)
  const created = yield* open
  return created ?? (yield* attempt(`Could not open ${file}`, (): number => {
    throw new Error("it was removed")
  }))
})

/** Reads a file as `openOwned` opens it, from a position on: the last MiB, because the owner controls its length. */
export const readOwned = (file: string, owner: number, from = 0): string | undefined => {
  const descriptor = openOwned(file, fs.constants.O_RDONLY, owner)
  if (descriptor === undefined) return undefined
  try {
    return readFrom(descriptor, from)
  } finally {
    fs.closeSync(descriptor)
  }
}

/** Reads an open file from a position on: the last MiB, if it is longer. */
export const readFrom = (descriptor: number, from = 0): string => {
  const { size } = fs.fstatSync(descriptor)
  const start = Math.max(from, size - 1024 * 1024)
  const bytes = Buffer.alloc(Math.max(0, size - start))
  return bytes.subarray(0, fs.readSync(descriptor, bytes, 0, bytes.length, start)).toString("utf8")
}

type Change = Effect.Effect<unknown, LocalPostgresError>

/** Creates a directory with mode 0700. */
export const makeDirectory = (place: string, { identity }: Owner): Change =>
  run("mkdir", ["-m", "700", "--", place], identity)

/** Renames a directory to a name that does not exist. */
export const rename = (from: string, to: string, { identity }: Owner): Change => run("mv", ["--", from, to], identity)

/** Removes a file, or a directory with its content. Retries, because a program may still write there. */
export const remove = (place: string, { identity }: Owner): Change =>
  Effect.retry(run("rm", ["-rf", "--", place], identity), { times: 100, schedule: Schedule.spaced("100 millis") })

/** Removes a directory that is empty. */
export const removeEmpty = (place: string, { identity }: Owner): Change => run("rmdir", ["--", place], identity)
