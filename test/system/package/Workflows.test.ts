/**
 * The workflows check each change and publish each release, without a secret. The tests read them.
 */
import { NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser"
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { commandsOf, manifest, workflowOf, workflows } from "../../fixtures/Release.ts"

const errorsOf = (name: string, content: string) =>
  parseWorkflow({ name, content }, new NoOperationTraceWriter()).context.errors.getErrors().map(({ message }) =>
    message
  )

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
    assert.deepStrictEqual(workflows.map(({ name }) => name).sort(), ["ci.yml", "release.yml"])
  })

  it("are valid for GitHub's own parser, expressions included", () => {
    for (const { content, name } of workflows) {
      assert.deepStrictEqual(errorsOf(name, content), [], name)
      assert.isNotEmpty(
        errorsOf(name, content.replace("timeout-minutes", "timeout-minute")),
        "the parser finds mistakes"
      )
      assert.isNotEmpty(errorsOf(name, content.replace(/github\.(ref|token) }}/, "git.$1 }}")), "also in expressions")
    }
  })

  it("run only pinned actions, scripts of this repository, and programs of the machine", () => {
    for (const { content, name } of workflows) {
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
    for (const { name } of workflows) {
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
