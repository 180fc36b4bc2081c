/**
 * A release is the same tarball from every clone of a commit, with its checksum and an SBOM. A workflow without a
 * secret publishes it with provenance. The tests read the workflows, and run their commands.
 */
import { NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser"
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { parse } from "yaml"

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

/** Runs scripts as the workflow does, with the Node version that it sets up. */
const runIn = (cwd: string, scripts: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  execFileSync("bash", ["-e", "-o", "pipefail", "-c", scripts.join("\n")], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: `${path.dirname(process.execPath)}:${process.env["PATH"]}`,
      HOME: process.env["HOME"] ?? "",
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

const makeOldAndPrivate = (place: string) => {
  for (const entry of fs.readdirSync(place, { withFileTypes: true })) {
    const below = path.join(place, entry.name)
    if (entry.isSymbolicLink()) continue
    if (entry.isDirectory()) makeOldAndPrivate(below)
    fs.chmodSync(below, 0o700)
    fs.utimesSync(below, 1e9, 1e9)
  }
}

describe("A release", () => {
  const tarball = `${manifest.name}-${manifest.version}.tgz`
  let temporary = ""
  let release = ""

  beforeAll(() => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "release-"))
    const clone = cloneTo(path.join(temporary, "clone"))
    runIn(clone, scriptsOfBuild)
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
})
