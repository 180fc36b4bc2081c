/**
 * The data directory and the files in it, for a process that may be root. No file is opened through a symbolic link.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as fs from "node:fs"
import * as path from "node:path"
import { attempt } from "./LocalPostgresError.ts"

export const isRoot = (): boolean => process.geteuid?.() === 0

/** Root, and in a user namespace the users outside of it, to whom `/` belongs and who all have one id. */
export const isRoots = (uid: number): boolean => uid === 0 || uid === fs.lstatSync("/").uid

const isWritableByOthers = ({ gid, mode }: fs.Stats) => (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== 0)

/** Throws if another user than root could exchange the directory, a directory above it, or a symbolic link on the way. */
const refuseExchangeable = (place: string): void => {
  const parent = path.dirname(place)
  if (parent !== place) refuseExchangeable(parent)
  const stat = fs.lstatSync(place)
  if (!isRoots(stat.uid)) {
    throw new Error([
      `user ${stat.uid} could exchange it, because ${place} belongs to that user. As root, use a data directory below`,
      "directories of root (DATA_DIR), or start as that user."
    ].join("\n"))
  }
  if (stat.isSymbolicLink()) return refuseExchangeable(path.resolve(fs.realpathSync(parent), fs.readlinkSync(place)))
  if (!stat.isDirectory()) throw new Error(`${place} is not a directory`)
  // In a sticky directory other users can add names, but exchange none.
  if (isWritableByOthers(stat) && (stat.mode & 0o1000) === 0) {
    throw new Error(`other users may write ${place}. Take that from them (chmod go-w), or use another data directory`)
  }
}

/**
 * Creates the data directory (mode 0700) if needed, and returns its real path. Permissions do not restrict root, so root refuses a
 * directory that another user could exchange or write.
 */
export const openDataDirectory = Effect.fnUntraced(function*(directory: string) {
  return yield* attempt(`Could not use the data directory ${directory}`, () => {
    let existing = directory
    while (!fs.lstatSync(existing, { throwIfNoEntry: false })) existing = path.dirname(existing)
    if (isRoot()) refuseExchangeable(existing)
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
    const dataDirectory = fs.realpathSync(directory)
    if (isRoot() && isWritableByOthers(fs.lstatSync(dataDirectory))) {
      throw new Error(`other users may write ${dataDirectory}. Use one that only one user may write (mode 0700)`)
    }
    return dataDirectory
  })
})

export const hasCode = (cause: unknown, ...codes: ReadonlyArray<string>): boolean =>
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
