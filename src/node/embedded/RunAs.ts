import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { type Identity, run } from "./Command.ts"
import { isRoot, isRoots } from "./DataDirectory.ts"
import { LocalPostgresError, useYourOwn } from "./LocalPostgresError.ts"

/** How to execute PostgreSQL's programs, which refuse to run as root. */
export interface RunAs {
  /** A program, with arguments, that executes the rest of the command line in its own place (same process id). */
  readonly prefix: ReadonlyArray<string>
  readonly identity?: Identity | undefined
}

/** The command line and identity of `file` under `runAs`. */
export const commandOf = (runAs: RunAs, file: string, args: ReadonlyArray<string>) => {
  const [first, ...rest] = [...runAs.prefix, file, ...args]
  return { file: first ?? file, args: rest, identity: runAs.identity }
}

/**
 * A user namespace that shows root as the user with id 65534. On disk the processes still act as root, so nothing needs a `chown`,
 * and a clone under a home that only root may enter works too. Process ids and signals do not change.
 */
const namespace: RunAs = { prefix: ["unshare", "--user", "--map-user=65534", "--map-group=65534"] }

/**
 * Decides as which user to run PostgreSQL. A process that is not root runs it as itself, and root in a user namespace. Old or restricted
 * kernels and containers refuse the namespace: the user `postgres` or `nobody` then gets PostgreSQL's own directories, if that user
 * reaches them and the programs. The data directory stays root's, so that this user can exchange nothing in it.
 */
export const chooseRunAs = Effect.fnUntraced(function*(postgres: string, dataDirectory: string, pgdata: string) {
  if (!isRoot()) return { prefix: [] } satisfies RunAs
  const existing = fs.lstatSync(pgdata, { throwIfNoEntry: false })
  const isGiven = existing !== undefined && !isRoots(existing.uid)
  if (!isGiven && (yield* reaches(namespace, postgres, dataDirectory))) return namespace
  fs.chmodSync(dataDirectory, 0o711)
  for (const another of isGiven ? [existing] : yield* unprivileged) {
    const runAs = { prefix: [], identity: { uid: another.uid, gid: another.gid } } satisfies RunAs
    if (!(yield* reaches(runAs, postgres, dataDirectory))) continue
    if (existing !== undefined) yield* giveTo(runAs, pgdata)
    return runAs
  }
  return yield* new LocalPostgresError({
    message: [
      "PostgreSQL refuses to run as root, and this machine offers no other user: user namespaces (unshare --user) are",
      `not permitted, and no unprivileged user reaches both ${postgres} and ${dataDirectory}.`,
      `Start the gateway as another user. ${useYourOwn}`
    ].join("\n")
  })
})

/** Gives a directory to the user who runs PostgreSQL. */
export const giveTo = ({ identity }: RunAs, directory: string): Effect.Effect<unknown, LocalPostgresError> =>
  identity === undefined
    ? Effect.void
    : run("chown", ["-hR", `${identity.uid}:${identity.gid}`, directory])

const reaches = (runAs: RunAs, program: string, directory: string) => {
  const command = commandOf(runAs, "/bin/sh", ["-c", `test -x "$1" && test -x "$2"`, "sh", program, directory])
  return run(command.file, command.args, command.identity).pipe(
    Effect.as(true),
    Effect.orElseSucceed(() => false)
  )
}

/** The users `postgres` and `nobody`, if the machine has them. */
const unprivileged = Effect.forEach(
  ["postgres", "nobody"],
  (name) =>
    Effect.all([run("id", ["-u", name]), run("id", ["-g", name])]).pipe(
      Effect.map(([uid, gid]): ReadonlyArray<Identity> => [{ uid: Number(uid), gid: Number(gid) }]),
      Effect.orElseSucceed((): ReadonlyArray<Identity> => [])
    )
).pipe(Effect.map((found) => found.flat()))
