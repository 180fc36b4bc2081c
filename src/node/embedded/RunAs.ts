import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Identity, run } from "./Command.ts"
import { ownerOf } from "./DataDirectory.ts"
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
 * A user namespace that shows the process's user as the user with id 65534. On disk the processes still act as before, so
 * nothing needs a `chown`, and a clone under a home that only root may enter works too. `initdb`, which refuses users
 * without an entry in the user database, works for all. Process ids and signals do not change.
 */
const namespace = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]

/**
 * Decides as which user to run PostgreSQL on a data directory:
 *
 * 1. A process that is not root runs it as itself.
 * 2. Root runs it as the owner of the directory, in a user namespace.
 * 3. Old or restricted kernels and containers refuse the namespace. Then root gives its directory to the user `postgres` or
 *    `nobody`, if that user can reach it and the programs. A directory of another user stays as it is.
 */
export const chooseRunAs = Effect.fnUntraced(function*(postgres: string, dataDirectory: string, pgdata: string) {
  if (process.geteuid?.() !== 0) return { prefix: [] } satisfies RunAs
  const { identity } = yield* ownerOf(dataDirectory)
  // Root has begun to give the directory to another user.
  const isGiven = identity === undefined && (fs.lstatSync(pgdata, { throwIfNoEntry: false })?.uid ?? 0) !== 0
  const inNamespace: RunAs = { prefix: namespace, identity }
  if (!isGiven && (yield* reaches(inNamespace, postgres, dataDirectory))) return inNamespace
  for (const another of identity === undefined ? ["postgres", "nobody"] : [identity]) {
    const runAs = { prefix: [], identity: typeof another === "string" ? yield* identityNamed(another) : another }
    if (runAs.identity === undefined || !(yield* reaches(runAs, postgres, path.dirname(dataDirectory)))) continue
    // The directory itself changes last, so that the user can exchange nothing in it before.
    if (identity === undefined) {
      yield* run("chown", ["-hR", `${runAs.identity.uid}:${runAs.identity.gid}`, dataDirectory])
    }
    yield* Effect.logInfo(`PostgreSQL runs as user ${runAs.identity.uid}, to whom ${dataDirectory} belongs`)
    return runAs
  }
  return yield* new LocalPostgresError({
    message: [
      "PostgreSQL refuses to run as root, and this machine offers no other user: user namespaces (unshare --user) are",
      `not permitted, and no unprivileged user reaches both ${path.dirname(postgres)} and ${dataDirectory}.`,
      `Start the gateway as another user. ${useYourOwn}`
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
