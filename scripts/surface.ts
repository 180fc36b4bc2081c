/**
 * Writes down the public surface of the package: `npm run surface`.
 *
 * The keys of `exports` in package.json are the list of public modules. A key is the room and the name of a file:
 * `./submission/HttpProvider` is `src/submission/http/HttpProvider.ts`. The folders inside of a room are not public, so
 * that files can move between them. A room with one public module has a key without a name: `./client`. This script finds the files,
 * writes their paths into `exports`, and lists the modules with their exports in `docs/api.md`. To add or remove a module,
 * change the keys (`"./room/Name": {}`) and run the script. It also writes the members of answers for the client on `fetch`.
 */
import { parse } from "@babel/parser"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { apiIndex, apiIndexFile, describeModule } from "./apiIndex.ts"
import { clientMembers, clientMembersFile } from "./clientMembers.ts"

const root = fileURLToPath(new URL("..", import.meta.url))

/** The condition under which the package's own examples and tests resolve a public module to its source. */
export const sourceCondition = "gateway-source"

type Exports = Readonly<Record<string, string | Readonly<Record<string, string>>>>

interface Manifest {
  readonly name: string
  readonly exports: Exports
}

const readManifest = (): Manifest => JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as Manifest

/** The source of each room with one public module. */
const roomModules: Readonly<Record<string, string>> = { "./client": "client/FetchClient" }

/** Public modules, such as `./api/Client`. The other keys name files that are no modules. */
const isModule = (key: string): boolean => key in roomModules || /^\.\/[a-z]+\/[A-Z][A-Za-z]*$/.test(key)

/** The source of a public module, such as `submission/http/HttpProvider`. */
const sourceOf = (key: string): string => {
  const only = roomModules[key]
  if (only !== undefined) return only
  const room = path.dirname(key)
  const found = fs.globSync(`${room}/**/${path.basename(key)}.ts`, { cwd: path.join(root, "src") })
  if (found.length !== 1) throw new Error(`${key} in package.json: ${found.length} such files in src, instead of one`)
  return found[0]!.replace(/\.ts$/, "")
}

const fileOf = (key: string): string => path.join(root, "src", `${sourceOf(key)}.ts`)

/** `exports` of package.json as they must be. A condition that comes first wins, so the source does. */
export const exportsOf = (manifest: Pick<Manifest, "exports">): Exports =>
  Object.fromEntries(
    Object.entries(manifest.exports).map(([key, target]) => {
      if (!isModule(key)) return [key, target]
      const source = sourceOf(key)
      return [key, {
        [sourceCondition]: `./src/${source}.ts`,
        types: `./dist/${source}.d.ts`,
        default: `./dist/${source}.js`
      }]
    })
  )

/**
 * Exported names of a module, types marked as such. A class, and a type with a value of its name, is listed as a value. What a docstring
 * marks as `@internal` is not public: the published declarations lack it.
 */
export const namesIn = (source: string): ReadonlyArray<string> => {
  const names = parse(source, { sourceType: "module", plugins: ["typescript"] }).program.body.flatMap((statement) => {
    if (statement.leadingComments?.at(-1)?.value.includes("@internal") === true) return []
    if (statement.type === "ExportAllDeclaration" || statement.type === "ExportDefaultDeclaration") {
      throw new Error(`a public module exports by name only, not by ${statement.type}`)
    }
    if (statement.type !== "ExportNamedDeclaration") return []
    const exported = statement.specifiers.map((specifier) => {
      if (specifier.type !== "ExportSpecifier") throw new Error(`unexpected ${specifier.type}`)
      const name = specifier.exported.type === "Identifier" ? specifier.exported.name : specifier.exported.value
      return statement.exportKind === "type" || specifier.exportKind === "type" ? `type ${name}` : name
    })
    const { declaration } = statement
    if (declaration === null || declaration === undefined) return exported
    switch (declaration.type) {
      case "TSInterfaceDeclaration":
      case "TSTypeAliasDeclaration":
        return [`type ${declaration.id.name}`]
      case "ClassDeclaration":
      case "FunctionDeclaration":
        return [declaration.id!.name]
      case "VariableDeclaration":
        return declaration.declarations.map(({ id }) => {
          if (id.type !== "Identifier") throw new Error(`a public module exports no ${id.type}`)
          return id.name
        })
      default:
        throw new Error(`a public module exports no ${declaration.type}`)
    }
  })
  const all = new Set(names)
  return [...all].filter((name) => !all.has(name.replace("type ", "")) || !name.startsWith("type ")).sort()
}

/** The public modules with the names that each exports, as `namesIn` gives them. */
export const publicNames = ({ exports }: Pick<Manifest, "exports">): ReadonlyMap<string, ReadonlyArray<string>> =>
  new Map(Object.keys(exports).filter(isModule).map((key) => [key, namesIn(fs.readFileSync(fileOf(key), "utf8"))]))

/** The public modules with the first sentences about them and their exports. */
export const describedModules = (manifest: Manifest) =>
  new Map(
    [...publicNames(manifest)].map(([key, names]) =>
      [key, describeModule(fileOf(key), names.map((name) => name.replace("type ", "")))] as const
    )
  )

/** The index of the API, as `docs/api.md` holds it. */
export const index = (manifest: Manifest): string => apiIndex(manifest.name, describedModules(manifest))

if (import.meta.main) {
  const manifest = readManifest()
  const complete = { ...manifest, exports: exportsOf(manifest) }
  fs.writeFileSync(path.join(root, "package.json"), `${JSON.stringify(complete, null, 2)}\n`)
  fs.writeFileSync(path.join(root, apiIndexFile), index(complete))
  fs.writeFileSync(path.join(root, clientMembersFile), clientMembers())
}
