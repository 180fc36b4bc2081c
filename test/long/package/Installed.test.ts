/**
 * The published package works in a project that only installed it: its modules, its declarations and its program. The tests
 * install the packed tarball.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { namesIn, publicNames } from "../../../scripts/surface.ts"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { codeBlocks } from "../../fixtures/Markdown.ts"
import { startProgram } from "../../fixtures/package/InstalledProgram.ts"
import { installIn, manifest, packedRelease, runIn, tarball, timeout } from "../../fixtures/package/Release.ts"
import { freePort } from "../../fixtures/processes/CommandLine.ts"

interface PublicModule {
  /** In `exports` of package.json. */
  readonly key: string
  readonly name: string
  /** As `namesIn` gives them. */
  readonly names: ReadonlyArray<string>
  readonly values: ReadonlyArray<string>
}

/** The public modules, by the names by which consumers import them, and the values that they export. */
const publicModules = (): ReadonlyArray<PublicModule> =>
  [...publicNames(manifest)].map(([key, names]) => ({
    key,
    name: key.replace(".", manifest.name),
    names,
    values: names.filter((name) => !name.startsWith("type "))
  }))

/** A module whose declarations need the type of each exported value. Types in internal modules cannot be named there. */
const inferred = (modules: ReadonlyArray<PublicModule>) =>
  modules.map(({ name, values }, at) =>
    [
      `import * as module${at} from "${name}"`,
      ...values.map((value) => `export const ${value}${at} = module${at}.${value}`),
      ""
    ].join("\n")
  ).join("")

/** Those of a strict project that emits declarations. */
const compilerOptions = {
  target: "ES2024",
  module: "NodeNext",
  strict: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  rewriteRelativeImportExtensions: true,
  declaration: true,
  emitDeclarationOnly: true,
  outDir: "declarations",
  types: ["node"]
}

describe("The package, installed in an empty project", () => {
  let temporary = ""
  let project = ""
  let home = ""

  beforeAll(async () => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "installed-"))
    const release = await packedRelease()
    project = path.join(temporary, "project")
    home = path.join(project, "node_modules", manifest.name)
    fs.mkdirSync(project)
    // What consumers bring: the peers, the types of Node, and the runner of the tests in the documentation.
    const brought = [...Object.keys(manifest.peerDependencies), "@types/node", "@effect/vitest", "vitest"].map((
      name
    ) => [
      name,
      manifest.devDependencies[name]
    ])
    const dependencies = { ...Object.fromEntries(brought), [manifest.name]: `file:${path.join(release, tarball)}` }
    const made = { name: "project", private: true, type: "module", dependencies }
    fs.writeFileSync(path.join(project, "package.json"), JSON.stringify(made))
    installIn(project)
  }, timeout)

  afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

  it("exports the public modules and their values, and no internal module", () => {
    const modules = publicModules()
    const script = `
      const imported = {}
      for (const name of ${
      JSON.stringify(modules.map(({ name }) => name))
    }) imported[name] = Object.keys(await import(name))
      const refused = await import("${manifest.name}/services/sql/SqlGrants").catch(({ code }) => code)
      console.log(JSON.stringify({ imported, refused }))`
    const { imported, refused } = JSON.parse(
      execFileSync(process.execPath, ["--input-type=module", "--eval", script], { cwd: project, encoding: "utf8" })
    ) as { readonly imported: Readonly<Record<string, ReadonlyArray<string>>>; readonly refused: unknown }
    for (const { key, name, names, values } of modules) {
      assert.includeMembers([...imported[name]!], [...values], name)
      const declarations = manifest.exports[key]!.types
      assert.sameMembers([...namesIn(fs.readFileSync(path.join(home, declarations), "utf8"))], [...names], name)
    }
    assert.strictEqual(refused, "ERR_PACKAGE_PATH_NOT_EXPORTED")
  })

  it("type-checks the code in the documents, the examples, and declarations of all that it exports", () => {
    const code = fs.globSync(path.join(home, "docs/*.md")).flatMap(codeBlocks)
    assert.includeMembers(
      code.map(({ name }) => name),
      ["authorization0.ts", "composition3.ts", "FirstBank.ts", "FirstBank.test.ts"]
    )
    const files = {
      ...Object.fromEntries(code.map(({ code, name }) => [name, code])),
      "surface.ts": inferred(publicModules()),
      "tsconfig.json": JSON.stringify({ compilerOptions, include: ["*.ts", "examples", "src"] })
    }
    fs.cpSync(path.join(home, "template/src"), path.join(project, "src"), { recursive: true })
    for (const [name, content] of Object.entries(files)) fs.writeFileSync(path.join(project, name), content)
    fs.cpSync(path.join(home, "examples"), path.join(project, "examples"), { recursive: true })
    const tsc = path.resolve("node_modules/typescript/bin/tsc")
    assert.strictEqual(runIn(project, [`node ${tsc} --project . || true`]), "")
  }, timeout)

  it(
    "serves the demo by npx: it becomes ready, answers the printed token, and SIGTERM leaves no process",
    async ({ onTestFinished }) => {
      const port = await Effect.runPromise(freePort)
      const url = `http://127.0.0.1:${port}`
      const program = await startProgram(
        project,
        ["npx", manifest.name, "serve", "--demo", "--port", String(port)],
        (output) => output.includes("Listening") ? / TOKEN=(\S+)$/m.exec(output)?.[1] : undefined
      )
      onTestFinished(program.kill)
      assert.isAbove(program.tree.length, 2, "npx, the server and its PostgreSQL")
      const get = (place: string) => fetchServed(url + place, { headers: { authorization: `Bearer ${program.found}` } })
      assert.strictEqual((await get("/readyz")).status, 200)
      const { operations } = await (await get("/v1/operations")).json() as {
        readonly operations: ReadonlyArray<{ readonly id: string }>
      }
      assert.strictEqual((await get(`/v1/operations/${operations[0]?.id}`)).status, 200)
      await program.stop()
      assert.instanceOf(await get("/readyz").catch((error: unknown) => error), TypeError, "the port is closed")
    },
    timeout
  )

  it("creates a project by npx, and runs an example that was copied into the project", async ({ onTestFinished }) => {
    runIn(project, [`npx ${manifest.name} init made`])
    assert.includeMembers(fs.readdirSync(path.join(project, "made")), ["package.json", "Containerfile", tarball])
    assert.include(fs.readFileSync(path.join(project, "made/package.json"), "utf8"), `"file:${tarball}"`)
    fs.cpSync(path.join(home, "examples"), path.join(project, "examples"), { recursive: true })
    const port = String(await Effect.runPromise(freePort))
    const example = await startProgram(
      project,
      ["node", "examples/payments/main.ts"],
      (output) => /^The payments endpoint is at (\S+)\. /m.exec(output)?.[1],
      { PORT: port }
    )
    onTestFinished(example.kill)
    assert.strictEqual((await fetch(`${example.found}/readyz`)).status, 200)
    await example.stop()
  }, timeout)
})
