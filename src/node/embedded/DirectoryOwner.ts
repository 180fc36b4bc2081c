import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Identity, run } from "./Command.ts"
import { attempt, LocalPostgresError } from "./LocalPostgresError.ts"

/** The user to whom a data directory and everything in it belongs. */
export interface Owner {
  readonly uid: number
  /** The user and group to become to act with the owner's rights. Absent if this process has them already. */
  readonly identity?: Identity
}

const isRoot = () => process.geteuid?.() === 0

/**
 * The user id of a data directory's owner. Fails when another user could exchange the directory.
 *
 * The rule protects root, because permissions do not restrict root. Every directory and symbolic link on the way
 * belongs to root or to the owner. A directory of root that other users may write is sticky. A data directory of root
 * may be written by root alone. So no other user can change where the path to root's own directory leads. The directory
 * of another user can change at any time: root changes it with that user's rights, and opens only regular files of that
 * user in it (`OwnedFiles`).
 *
 * A process that is not root always acts with its own rights, and gets its own user id.
 */
export const ownerUid = (dataDirectory: string): Effect.Effect<number, LocalPostgresError> =>
  isRoot()
    ? Effect.flatMap(look(dataDirectory), (way) =>
      way.missing.length === 0
        ? checkWay(dataDirectory, way)
        : new LocalPostgresError({ message: `${dataDirectory} is gone.` }))
    : Effect.sync(() => process.geteuid?.() ?? 0)

/** As `ownerUid`, with the identity to become. */
export const ownerOf = (dataDirectory: string): Effect.Effect<Owner, LocalPostgresError> =>
  Effect.flatMap(ownerUid(dataDirectory), ownerWith)

const ownerWith = (uid: number): Effect.Effect<Owner> =>
  uid === process.geteuid?.()
    ? Effect.succeed({ uid })
    : Effect.map(identityOf(uid), (identity) => ({ uid, identity }))

/**
 * A user with the user's own group. The group of a file is not used: it may be root's. A user without an entry in the
 * user database gets the group of the same number.
 */
export const identityOf = (uid: number): Effect.Effect<Identity> =>
  run("id", ["-g", String(uid)]).pipe(
    Effect.map((stdout) => Number(stdout)),
    Effect.orElseSucceed(() => uid),
    Effect.map((gid) => ({ uid, gid }))
  )

/**
 * Creates the data directory (mode 0700) if needed, and returns its real path. Below a directory of another user root
 * creates it with that user's rights, and for that user.
 */
export const openDataDirectory = Effect.fnUntraced(function*(directory: string) {
  if (!isRoot()) {
    return yield* attempt("Could not create the data directory", () => {
      fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
      return fs.realpathSync(directory)
    })
  }
  const way = yield* look(directory)
  const uid = yield* checkWay(directory, way)
  if (way.missing.length === 0) return way.reached
  const created = path.join(way.reached, ...way.missing)
  const { identity } = yield* ownerWith(uid)
  if (identity === undefined) {
    yield* attempt(
      "Could not create the data directory",
      () => fs.mkdirSync(created, { recursive: true, mode: 0o700 })
    )
  } else {
    yield* run("/bin/sh", ["-c", `umask 077 && mkdir -p -- "$1"`, "sh", created], identity)
  }
  return created
})

/** The path to a directory, as far as it exists. */
interface Way {
  /** The deepest directory that exists, without symbolic links. */
  readonly reached: string
  readonly stat: fs.Stats
  /** The names that do not exist yet, in order. */
  readonly missing: ReadonlyArray<string>
  /** Users other than root who own a directory or a symbolic link on the way, and can therefore exchange the rest. */
  readonly users: ReadonlySet<number>
}

/** Most symbolic links on a path, as in the kernel. */
const mostLinks = 40

/** Follows a path as the kernel does, and notes the users who can change where it leads. */
const look = (directory: string): Effect.Effect<Way, LocalPostgresError> =>
  attempt("Could not open the data directory", () => {
    const users = new Set<number>()
    const enter = (place: string): [string, fs.Stats] => {
      const stat = fs.lstatSync(place)
      if (!stat.isDirectory()) throw new Error(`${place} is not a directory`)
      if (!isRoots(stat.uid)) users.add(stat.uid)
      if (isWritableByOthers(stat) && (stat.mode & sticky) === 0) {
        throw new Error(
          `other users may write ${place}. Take that from them (chmod go-w), or use another data directory`
        )
      }
      return [place, stat]
    }
    let [[reached, stat], links] = [enter("/"), 0]
    let names = namesOf(path.resolve(directory))
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      const next = path.join(reached, name)
      const found = fs.lstatSync(next, { throwIfNoEntry: false })
      if (found === undefined) return { reached, stat, missing: [name, ...names], users }
      if (!found.isSymbolicLink()) {
        ;[reached, stat] = enter(next)
        continue
      }
      if (++links > mostLinks) throw new Error(`too many symbolic links in ${directory}`)
      if (!isRoots(found.uid)) users.add(found.uid)
      const target = fs.readlinkSync(next)
      if (path.isAbsolute(target)) [reached, stat] = enter("/")
      names = [...namesOf(target), ...names]
    }
    return { reached, stat, missing: [], users }
  })

const namesOf = (place: string) => place.split("/").filter((name) => name !== "" && name !== ".")

/** The owner of the directory at the end of the way, or its future owner if it does not exist. */
const checkWay = (
  directory: string,
  { missing, reached, stat, users }: Way
): Effect.Effect<number, LocalPostgresError> => {
  const owner = isRoots(stat.uid) ? 0 : stat.uid
  const strangers = [...users].filter((uid) => uid !== owner)
  if (strangers.length > 0) {
    const whose = missing.length === 0
      ? `belongs to user ${owner}`
      : `does not exist, and ${reached} is user ${owner}'s`
    return new LocalPostgresError({
      message: [
        `${directory} ${whose}, but user ${strangers.join(" and user ")} could exchange it, because a directory or a`,
        "symbolic link on the way belongs to that user. Create the directory for that user, use a data directory",
        "below directories of root, or set DATABASE_URL."
      ].join("\n")
    })
  }
  return missing.length === 0 && isWritableByOthers(stat)
    ? new LocalPostgresError({
      message: `Other users may write ${reached}. Use a data directory that only one user may write (mode 0700).`
    })
    : Effect.succeed(owner)
}

const sticky = 0o1000

/** The modes of another user's directories are that user's concern: root acts there with the user's rights alone. */
const isWritableByOthers = ({ gid, mode, uid }: fs.Stats) =>
  isRoots(uid) && ((mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== 0))

/** Root, or in a user namespace the users outside of it, such as root of the machine. */
const isRoots = (uid: number) => uid === 0 || uid === unmappedUid

/** Undefined if all users are mapped: then the id belongs to an ordinary user. */
const findUnmappedUid = (): number | undefined => {
  const [map, overflow] = ["/proc/self/uid_map", "/proc/sys/kernel/overflowuid"].map((file) =>
    fs.existsSync(file) ? fs.readFileSync(file, "utf8").trim() : ""
  )
  if (!map || !overflow) return undefined
  const isMapped = map.split("\n").some((line) => {
    const [inside = 0, , count = 0] = line.trim().split(/\s+/).map(Number)
    return Number(overflow) >= inside && Number(overflow) < inside + count
  })
  return isMapped ? undefined : Number(overflow)
}

/** The id by which Linux shows all users that a user namespace does not map. */
const unmappedUid = findUnmappedUid()
