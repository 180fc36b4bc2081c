import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Identity, run } from "./Command.ts"
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
 * A user namespace in which root's processes appear to be nobody's. On disk they still are root's, so nothing needs a
 * `chown`, and a clone under a home that only root may enter works too. Process ids and signals stay as they are.
 */
const namespace: RunAs = { prefix: ["unshare", "--user", "--map-user=65534", "--map-group=65534"] }

/**
 * Decides how to run PostgreSQL on a data directory: as this process, unless it is root. Root runs it as the owner of
 * an existing cluster, else in a user namespace, else (old or restricted kernels, containers) as the user `postgres`
 * or `nobody`, to whom the data directory then is given, if that user can reach the programs and the directory.
 */
export const chooseRunAs = Effect.fnUntraced(function*(paths: {
  readonly postgres: string
  readonly dataDirectory: string
  readonly pgdata: string
}) {
  if (process.geteuid?.() !== 0) return { prefix: [] } satisfies RunAs
  const owner = fs.statSync(paths.pgdata, { throwIfNoEntry: false })
  if (owner !== undefined && owner.uid !== 0) {
    return { prefix: [], identity: { uid: owner.uid, gid: owner.gid } } satisfies RunAs
  }
  if (yield* reaches(namespace, paths.postgres, paths.dataDirectory)) return namespace
  for (const name of ["postgres", "nobody"]) {
    const identity = yield* identityOf(name)
    if (identity === undefined) continue
    const runAs: RunAs = { prefix: [], identity }
    if (!(yield* reaches(runAs, paths.postgres, path.dirname(paths.dataDirectory)))) continue
    yield* giveTo(identity, paths)
    return runAs
  }
  return yield* new LocalPostgresError({
    message: [
      "PostgreSQL refuses to run as root, and there is no way around it here: user namespaces (unshare --user) are not",
      `permitted, and no unprivileged user (postgres, nobody) reaches both ${path.dirname(paths.postgres)}`,
      `and ${paths.dataDirectory}. Start the gateway as another user. ${useYourOwn}`
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

const identityOf = (name: string) =>
  Effect.all([run("id", ["-u", name]), run("id", ["-g", name])]).pipe(
    Effect.map(([uid, gid]): Identity => ({ uid: Number(uid), gid: Number(gid) })),
    Effect.orElseSucceed(() => undefined)
  )

/** The rest of a data directory's contents is read and written by the supervisor itself. */
const giveTo = Effect.fnUntraced(function*(
  identity: Identity,
  paths: { readonly dataDirectory: string; readonly pgdata: string }
) {
  yield* attempt(
    "Could not give the data directory to an unprivileged user",
    () => fs.chownSync(paths.dataDirectory, identity.uid, identity.gid)
  )
  if (fs.existsSync(paths.pgdata)) {
    yield* run("chown", ["-R", `${identity.uid}:${identity.gid}`, paths.pgdata])
  }
})
