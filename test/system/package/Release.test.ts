/**
 * A release is the same tarball from every clone of a commit, with its checksum and an SBOM. A workflow without a
 * secret publishes it with provenance. The tests read the workflows, and run their commands.
 */
import { NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { parse } from "yaml"
import { surfaceFile } from "../../../scripts/surface.ts"
import { freePort } from "../../fixtures/CommandLine.ts"
import { killAll, leftOf, treeOf } from "../../fixtures/Processes.ts"

interface Step {
  readonly name?: string
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}

interface Job {
  readonly needs?: string
  readonly "timeout-minutes"?: number
  readonly permissions?: Readonly<Record<string, string>>
  readonly steps: ReadonlyArray<Step>
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions?: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const directory = ".github/workflows"
const sources = fs.readdirSync(directory).map((name) => ({
  name,
  content: fs.readFileSync(path.join(directory, name), "utf8")
}))
const workflowOf = (name: string) => parse(sources.find((source) => source.name === name)?.content ?? "") as Workflow

const manifest = JSON.parse(fs.readFileSync("package.json", "utf8")) as {
  readonly name: string
  readonly version: string
  readonly files: ReadonlyArray<string>
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
}

const errorsOf = (name: string, content: string) =>
  parseWorkflow({ name, content }, new NoOperationTraceWriter()).context.errors.getErrors().map(({ message }) =>
    message
  )

/** The commands of a script, one per line, without substitutions. */
const commandsOf = (script: string) => script.split("\n").map((line) => line.trim()).filter((line) => line !== "")

/** Programs that GitHub's machines provide. */
const installed = ["bash", "cmp", "gh", "node", "npm", "sha256sum", "test"]

const canRun = (command: string) => {
  const [program = "", ...rest] = command.split(" ")
  if (program.includes("/")) return (fs.statSync(program).mode & 0o111) !== 0
  if (program === "npm" && rest[0] === "run") return Object.hasOwn(manifest.scripts, rest[1] ?? "")
  return installed.includes(program)
}

describe("The workflows", () => {
  it("are CI and the release", () => {
    assert.deepStrictEqual(sources.map(({ name }) => name).sort(), ["ci.yml", "release.yml"])
  })

  it("are valid for GitHub's own parser, expressions included", () => {
    for (const { content, name } of sources) {
      assert.deepStrictEqual(errorsOf(name, content), [], name)
      assert.isNotEmpty(
        errorsOf(name, content.replace("timeout-minutes", "timeout-minute")),
        "the parser finds mistakes"
      )
      assert.isNotEmpty(errorsOf(name, content.replace(/github\.(ref|token) }}/, "git.$1 }}")), "also in expressions")
    }
  })

  it("run only pinned actions, scripts of this repository, and programs of the machine", () => {
    for (const { content, name } of sources) {
      const steps = Object.values(workflowOf(name).jobs).flatMap((job) => job.steps)
      for (const [line] of content.matchAll(/uses:.*/g)) {
        assert.match(line, /^uses: actions\/[a-z-]+@[0-9a-f]{40} # v\d/)
      }
      for (const { run, uses } of steps) {
        assert.notStrictEqual(run === undefined, uses === undefined)
        if (run === undefined) continue
        execFileSync("bash", ["-n", "-c", run])
        // GitHub puts expressions into the text of a script, where their values would be read as commands.
        assert.notInclude(run, "${{")
        for (const command of commandsOf(run)) assert.isTrue(canRun(command), command)
      }
      assert.notMatch(content, /https?:|secrets\./, "names no host, and needs no secret")
    }
  })

  it("have timeouts, keep no credentials in the clone, and may only read, except for jobs that run no code of a clone", () => {
    for (const { name } of sources) {
      const { jobs, permissions } = workflowOf(name)
      assert.isDefined(permissions)
      for (const [id, job] of Object.entries(jobs)) {
        assert.isAtMost(job["timeout-minutes"] ?? Infinity, 120, id)
        for (const { uses, with: inputs } of job.steps) {
          if (uses?.startsWith("actions/checkout@") === true) assert.isFalse(inputs?.["persist-credentials"])
        }
        const rights = Object.values(job.permissions ?? permissions ?? {})
        if (!rights.includes("write")) continue
        assert.isFalse(job.steps.some(({ uses }) => uses?.startsWith("actions/checkout@")), id)
        const commands = job.steps.flatMap(({ run }) => commandsOf(run ?? ""))
        assert.isFalse(commands.some((command) => /^(?:\.|npm (?:ci|install|run|test|exec))/.test(command)), id)
      }
    }
  })

  it("check each change with .ci/run, from a clone with Node 20", () => {
    const { jobs, on } = workflowOf("ci.yml")
    assert.containsAllKeys(on, ["push", "pull_request"])
    const { steps } = jobs["run"]!
    assert.deepStrictEqual(steps.flatMap(({ run }) => run ?? []), [".ci/run"])
    assert.strictEqual(steps.find(({ uses }) => uses?.startsWith("actions/setup-node@"))?.with?.["node-version"], 20)
  })

  it("publish the checked, packed and compared tarball with provenance when a version is tagged", () => {
    const { jobs, on } = workflowOf("release.yml")
    assert.deepStrictEqual(on, { push: { tags: ["v[0-9]+.[0-9]+.[0-9]+"] } })
    const commands = (id: string) => jobs[id]!.steps.flatMap(({ run }) => commandsOf(run ?? ""))
    assert.includeMembers(commands("build"), ["npm ci", ".ci/run", "cmp release/*.tgz again/*.tgz"])
    assert.deepStrictEqual([jobs["publish"]?.needs, jobs["announce"]?.needs], ["build", "publish"])
    assert.deepStrictEqual(jobs["publish"]?.permissions, { "id-token": "write" })
    assert.deepStrictEqual(commands("publish"), [
      "sha256sum --check *.sha256",
      "npm publish ./*.tgz --provenance --access public --ignore-scripts"
    ])
    assert.deepStrictEqual(jobs["announce"]?.permissions, { contents: "write" })
    assert.include(commands("announce").at(-1), "*.tgz *.sha256 *.cdx.json")
  })
})

/** Timeout of each of these tests, in milliseconds: each builds the project. */
const timeout = 300_000

const needed = [
  "package.json package-lock.json tsconfig.json tsconfig.build.json .npmrc README.md LICENSE scripts".split(" "),
  manifest.files.filter((file) => file !== "dist")
].flat()

/** A clone with only the files that a release needs. */
const cloneTo = (place: string) => {
  for (const file of needed) fs.cpSync(file, path.join(place, file), { recursive: true })
  fs.symlinkSync(path.resolve("node_modules"), path.join(place, "node_modules"))
  return place
}

/** With the Node that the workflow sets up. */
const environment = {
  PATH: `${path.dirname(process.execPath)}:${process.env["PATH"]}`,
  HOME: process.env["HOME"] ?? ""
}

/** Runs scripts as the workflow does, with the Node that it sets up. */
const runIn = (cwd: string, scripts: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  execFileSync("bash", ["-e", "-o", "pipefail", "-c", scripts.join("\n")], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout,
    env: {
      ...environment,
      GITHUB_REF_NAME: `v${manifest.version}`,
      GITHUB_SERVER_URL: "git://git.example",
      GITHUB_REPOSITORY: "owner/name",
      ...env
    }
  })

/** The commands of the workflow between checkout and upload, except for installation and tests. */
const scriptsOfBuild = workflowOf("release.yml").jobs["build"]!.steps.flatMap(({ run }) =>
  run === undefined || ["npm ci", ".ci/run"].includes(run) ? [] : [run]
)

/** The same, packing once. The workflow packs twice and compares; the tests pack again in another clone. */
const scriptsOfOnePacking = scriptsOfBuild.map((script) =>
  commandsOf(script).filter((command) => !command.includes("again")).join("\n")
)

const makeOldAndPrivate = (place: string) => {
  for (const entry of fs.readdirSync(place, { withFileTypes: true })) {
    const below = path.join(place, entry.name)
    if (entry.isSymbolicLink()) continue
    if (entry.isDirectory()) makeOldAndPrivate(below)
    fs.chmodSync(below, 0o700)
    fs.utimesSync(below, 1e9, 1e9)
  }
}

interface PublicModule {
  readonly name: string
  readonly values: ReadonlyArray<string>
}

/** The modules of surface.txt, by the names by which consumers import them, and the values that they export. */
const publicModules = (): ReadonlyArray<PublicModule> =>
  fs.readFileSync(surfaceFile, "utf8").split(/^(?=\.)/m).flatMap((lines) => {
    const [key = "", ...names] = lines.trim().split("\n").map((line) => line.trim())
    const values = names.filter((name) => !name.startsWith("type "))
    return names.length === 0 ? [] : [{ name: key.replace(".", manifest.name), values }]
  })

/** A module whose declarations need the type of each exported value. Types in internal modules cannot be named there. */
const inferred = (modules: ReadonlyArray<PublicModule>) =>
  modules.map(({ name, values }, at) =>
    [
      `import * as module${at} from "${name}"`,
      ...values.map((value) => `export const ${value}${at} = module${at}.${value}`),
      ""
    ].join("\n")
  ).join("")

/** The adapter that the code in docs/submission.md imports. */
const firstBank = `
import type { HttpClient } from "effect/http"
import type { Layer } from "effect"
import type { ProviderAdapter } from "${manifest.name}/submission/ProviderAdapter"
export declare const layer: Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient>
`

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

describe("A release", () => {
  const tarball = `${manifest.name}-${manifest.version}.tgz`
  let temporary = ""
  let release = ""

  beforeAll(() => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "release-"))
    const clone = cloneTo(path.join(temporary, "clone"))
    runIn(clone, scriptsOfOnePacking)
    release = path.join(clone, "release")
  }, timeout)

  afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

  it(
    "has the bytes of its checksum, also from a clone with other dates, permissions and path",
    () => {
      const digest = createHash("sha256").update(fs.readFileSync(path.join(release, tarball))).digest("hex")
      assert.strictEqual(fs.readFileSync(path.join(release, `${tarball}.sha256`), "utf8"), `${digest}  ${tarball}\n`)
      const clone = cloneTo(path.join(temporary, "another", "place", "of", "another", "length"))
      makeOldAndPrivate(clone)
      const named = scriptsOfBuild.filter((script) => script.startsWith("npm pkg set"))
      assert.lengthOf(named, 1)
      runIn(clone, ["umask 077", ...named, "npm run package:pack -- out"])
      assert.strictEqual(
        fs.readFileSync(path.join(clone, "out", `${tarball}.sha256`), "utf8"),
        fs.readFileSync(path.join(release, `${tarball}.sha256`), "utf8")
      )
    },
    timeout
  )

  it("is refused under a tag that does not name its version", () => {
    const [check] = scriptsOfBuild
    assert.include(check, "GITHUB_REF_NAME")
    runIn(".", [check!])
    for (const tag of [`v${manifest.version}0`, manifest.version, "v", ""]) {
      assert.throws(() => runIn(".", [check!], { GITHUB_REF_NAME: tag }))
    }
  })

  it("holds the program and names the repository that its provenance names", () => {
    const list = execFileSync("tar", ["-tzf", path.join(release, tarball)], { encoding: "utf8" }).trim().split("\n")
    assert.includeMembers(list, ["main.js", "main.d.ts", "api/Client.js"].map((file) => `package/dist/${file}`))
    const allowed = [...manifest.files, "package.json", "README.md", "LICENSE"].map((file) => `package/${file}`)
    assert.deepStrictEqual(
      list.filter((file) => !allowed.some((name) => file === name || file.startsWith(`${name}/`))),
      []
    )
    const packed = JSON.parse(
      execFileSync("tar", ["-xzOf", path.join(release, tarball), "package/package.json"], { encoding: "utf8" })
    ) as { readonly repository: unknown }
    assert.deepStrictEqual(packed.repository, { type: "git", url: "git+git://git.example/owner/name.git" })
  })

  it("comes with an SBOM that lists its dependencies, and marks those of development", () => {
    const { bomFormat, components, metadata } = JSON.parse(
      fs.readFileSync(path.join(release, `${manifest.name}-${manifest.version}.cdx.json`), "utf8")
    ) as {
      readonly bomFormat: string
      readonly metadata: { readonly component: { readonly name: string; readonly version: string } }
      readonly components: ReadonlyArray<{
        readonly name: string
        readonly version: string
        readonly properties: ReadonlyArray<{ readonly name: string; readonly value: string }>
      }>
    }
    assert.strictEqual(bomFormat, "CycloneDX")
    assert.include(metadata.component, { name: manifest.name, version: manifest.version })
    const [developed, used] = [true, false].map((isDevelopment) =>
      components.filter(({ properties }) =>
        properties.some(({ name, value }) => name === "cdx:npm:package:development" && value === "true")
          === isDevelopment
      ).map(({ name, version }) => `${name}@${version}`)
    )
    assert.includeMembers(used!, Object.entries(manifest.dependencies).map(([name, version]) => `${name}@${version}`))
    assert.isTrue(used!.some((name) => name.startsWith("effect@")))
    assert.isTrue(developed!.some((name) => name.startsWith("vitest@")))
  })

  describe("installed in an empty project", () => {
    let project = ""
    let home = ""

    beforeAll(() => {
      project = path.join(temporary, "project")
      home = path.join(project, "node_modules", manifest.name)
      fs.mkdirSync(project)
      fs.writeFileSync(path.join(project, "package.json"), JSON.stringify({ private: true, type: "module" }))
      // What consumers bring: the peers, and the types of Node.
      const brought = [...Object.keys(manifest.peerDependencies), "@types/node"].map((name) =>
        `${name}@${manifest.devDependencies[name]}`
      )
      runIn(project, [
        `npm install --prefer-offline --no-audit --no-fund ${[path.join(release, tarball), ...brought].join(" ")}`
      ])
    }, timeout)

    it("exports the modules and values of surface.txt, and no internal module", () => {
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
      for (const { name, values } of modules) assert.sameMembers([...imported[name]!], [...values], name)
      assert.strictEqual(refused, "ERR_PACKAGE_PATH_NOT_EXPORTED")
    })

    it("type-checks the code in README and docs, the examples, and declarations of all that it exports", () => {
      const code = [path.join(home, "README.md"), ...fs.globSync(path.join(home, "docs/*.md"))].flatMap((file) =>
        [...fs.readFileSync(file, "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map(([, block], at) => ({
          name: `${path.basename(file, ".md")}${at}.ts`,
          block: block!
        }))
      )
      assert.includeMembers(code.map(({ name }) => name), ["README0.ts", "authorization0.ts", "submission0.ts"])
      const files = {
        ...Object.fromEntries(code.map(({ block, name }) => [name, block])),
        "FirstBank.ts": firstBank,
        "surface.ts": inferred(publicModules()),
        "tsconfig.json": JSON.stringify({ compilerOptions, include: ["*.ts", "examples"] })
      }
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
        const child = spawn("npx", [manifest.name, "serve", "--demo", "--port", String(port)], {
          cwd: project,
          env: environment,
          stdio: ["ignore", "pipe", "pipe"],
          // A process group of its own: npx keeps SIGTERM to itself, and a terminal signals the group.
          detached: true
        })
        let tree: ReadonlyArray<number> = []
        onTestFinished(() => killAll([...tree, ...treeOf(child.pid!)]))
        let output = ""
        const token = await new Promise<string>((resolve, reject) => {
          for (const stream of [child.stdout, child.stderr]) {
            stream.setEncoding("utf8").on("data", (chunk: string) => {
              output += chunk
              const [, token] = /^Access token of the demo grant: (\S+)$/m.exec(output) ?? []
              if (token !== undefined && output.includes("Listening")) resolve(token)
            })
          }
          child.once("exit", () => reject(new Error(`serve ended: ${output}`)))
        })
        tree = treeOf(child.pid!)
        assert.isAbove(tree.length, 2, "npx, the server and its PostgreSQL")
        const get = (place: string) => fetch(url + place, { headers: { authorization: `Bearer ${token}` } })
        assert.strictEqual((await get("/readyz")).status, 200)
        const { operations } = await (await get("/v1/operations")).json() as {
          readonly operations: ReadonlyArray<{ readonly id: string }>
        }
        assert.strictEqual((await get(`/v1/operations/${operations[0]?.id}`)).status, 200)
        process.kill(-child.pid!, "SIGTERM")
        while (leftOf(tree).length > 0) await new Promise((resolve) => setTimeout(resolve, 50))
        assert.instanceOf(await get("/readyz").catch((error: unknown) => error), TypeError, "the port is closed")
      },
      timeout
    )
  })
})
