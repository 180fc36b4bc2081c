import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Identity, run } from "./Command.ts"
import { identityOf, ownerOf } from "./DirectoryOwner.ts"
import { attempt, LocalPostgresError, useYourOwn } from "./LocalPostgresError.ts"

/** How to execute PostgreSQL's programs, which refuse to run as root. */
export interface RunAs {
  /** A program, with arguments, that executes the rest of the command line in its own place (same process id). */
  readonly prefix: ReadonlyArray<string>
  readonly identity?: Identity
}

/** The command line and identity of `file` under `runAs`. */
export const commandOf = (runAs: RunAs, file: string, args: ReadonlyArray<string>) => {
  const [first, ...rest] = [...runAs.prefix, file, ...args]
  return { file: first ?? file, args: rest, identity: runAs.identity }
}

/**
 * A user namespace that maps root to the user with id 65534. On disk the processes still act as root, so nothing needs
 * a `chown`, and a clone under a home that only root may enter works too. Process ids and signals do not change.
 */
const namespace: RunAs = { prefix: ["unshare", "--user", "--map-user=65534", "--map-group=65534"] }

/**
 * Decides as which user to run PostgreSQL on a data directory:
 *
 * 1. A process that is not root runs it as itself.
 * 2. Root runs it as the owner of the directory, if that is another user.
 * 3. In its own directory, root runs it in a user namespace.
 * 4. Old or restricted kernels and containers refuse the namespace. Then root runs it as the user `postgres` or `nobody`,
 *    if that user can reach the programs and the directory. Root gives the data directory to that user.
 */
export const chooseRunAs = Effect.fnUntraced(function*(paths: {
  readonly postgres: string
  readonly dataDirectory: string
  readonly pgdata: string
  readonly log: string
  readonly lock: string
}) {
  if (process.geteuid?.() !== 0) return { prefix: [] } satisfies RunAs
  const { identity } = yield* ownerOf(paths.dataDirectory)
  if (identity !== undefined) return yield* runAsOwner(identity, paths)
  const pgdata = fs.lstatSync(paths.pgdata, { throwIfNoEntry: false })
  if (pgdata !== undefined && pgdata.uid !== 0) {
    const runAs = yield* runAsOwner(yield* identityOf(pgdata.uid), paths)
    yield* giveTo(runAs.identity, paths)
    return runAs
  }
  if (yield* reaches(namespace, paths.postgres, paths.dataDirectory)) return namespace
  for (const name of ["postgres", "nobody"]) {
    const identity = yield* identityNamed(name)
    if (identity === undefined) continue
    const runAs: RunAs = { prefix: [], identity }
    if (!(yield* reaches(runAs, paths.postgres, path.dirname(paths.dataDirectory)))) continue
    yield* giveTo(identity, paths)
    return runAs
  }
  return yield* new LocalPostgresError({
    message: [
      "PostgreSQL refuses to run as root, and this machine offers no other user: user namespaces (unshare --user) are",
      `not permitted, and no unprivileged user (postgres, nobody) reaches both ${path.dirname(paths.postgres)}`,
      `and ${paths.dataDirectory}. Start the gateway as another user. ${useYourOwn}`
    ].join("\n")
  })
})

/** `initdb` refuses a user without an entry in the user database. In a namespace that user appears to be `nobody`. */
const runAsOwner = Effect.fnUntraced(function*(
  identity: Identity,
  paths: { readonly postgres: string; readonly dataDirectory: string }
) {
  const plain: RunAs & { readonly identity: Identity } = { prefix: [], identity }
  const isListed = (yield* identityNamed(String(identity.uid))) !== undefined
  for (const runAs of isListed ? [plain] : [{ ...namespace, identity }, plain]) {
    if (!(yield* reaches(runAs, paths.postgres, path.dirname(paths.dataDirectory)))) continue
    yield* Effect.logInfo(`PostgreSQL runs as user ${identity.uid}, to whom ${paths.dataDirectory} belongs`)
    return runAs
  }
  return yield* new LocalPostgresError({
    message: [
      `${paths.dataDirectory} belongs to user ${identity.uid}, so PostgreSQL has to run as that user, who cannot reach`,
      `${paths.postgres} or the directory. Start the gateway as that user, or use a data directory of root. ${useYourOwn}`
    ].join("\n")
  })
})

const reaches = (runAs: RunAs, program: string, directory: string) => {
  const command = commandOf(runAs, "/bin/sh", ["-c", `test -x "$1" && test -x "$2"`, "sh", program, directory])
  return run(command.file, command.args, command.identity).pipe(
    Effect.as(true),
    Effect.orElseSucceed(() => false)
  )
}

const identityNamed = (name: string) =>
  Effect.all([run("id", ["-u", name]), run("id", ["-g", name])]).pipe(
    Effect.map(([uid, gid]): Identity => ({ uid: Number(uid), gid: Number(gid) })),
    Effect.orElseSucceed(() => undefined)
  )

/**
 * Gives the data directory of root to another user, with the files of PostgreSQL and the supervisor in it. The
 * directory itself is changed last. Until then the user can exchange nothing in it, and the next start completes an
 * interrupted change.
 */
const giveTo = Effect.fnUntraced(function*(
  { gid, uid }: Identity,
  { dataDirectory, lock, log, pgdata }: {
    readonly dataDirectory: string
    readonly pgdata: string
    readonly log: string
    readonly lock: string
  }
) {
  if (fs.lstatSync(pgdata, { throwIfNoEntry: false })?.uid === 0) yield* run("chown", ["-hR", `${uid}:${gid}`, pgdata])
  yield* attempt("Could not give the data directory to an unprivileged user", () => {
    for (const place of [log, lock, path.join(dataDirectory, "socket"), dataDirectory]) {
      if (fs.lstatSync(place, { throwIfNoEntry: false })) fs.lchownSync(place, uid, gid)
    }
  })
})
