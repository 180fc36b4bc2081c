/** Runs named tests in a copy of the repository. */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import type { NamedTests } from "./Plant.ts"

/** The report of Vitest, as far as it is read here. */
interface Report {
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly message?: string
    readonly assertionResults: ReadonlyArray<{ readonly fullName: string; readonly status: string }>
  }>
}

/** How the named tests ended. */
interface Ended {
  /** The names of those that passed, and of those that failed. */
  readonly passed: ReadonlyArray<string>
  readonly failed: ReadonlyArray<string>
  /** Why a file or the run failed without a failed test: an error while it loads, in a hook, or outside of the tests. */
  readonly error: string | null
}

/** Milliseconds. A mistake may let a test wait for ever. */
const testTimeout = 60_000

const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")

/** Runs a command to its end, and yields its last output. Ends it when the fiber is interrupted. */
const run = (args: ReadonlyArray<string>, cwd: string, env: NodeJS.ProcessEnv) =>
  Effect.callback<string>((resume) => {
    const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output = (output + chunk.toString()).slice(-2000)
      })
    }
    child.on("close", () => resume(Effect.succeed(output)))
    return Effect.sync(() => child.kill())
  })

/** Whether it is one of the tests. */
export const isOf = ({ path: file, title }: NamedTests, name: string): boolean =>
  name.startsWith(`${file} `) && (title === undefined || name.includes(title))

/**
 * Runs the tests, which either all have titles or none. With `bail` it stops at the first failure. The name of a test is its file and
 * its whole title.
 */
export const runTests = Effect.fnUntraced(
  function*(directory: string, tests: ReadonlyArray<NamedTests>, env: NodeJS.ProcessEnv, bail: boolean) {
    const report = path.join(directory, "plants.json")
    fs.rmSync(report, { force: true })
    const titles = tests.flatMap(({ title }) => title === undefined ? [] : [escaped(title)])
    const output = yield* run(
      [
        path.join(directory, "node_modules/vitest/vitest.mjs"),
        "run",
        // It has the files of another project again.
        "--project=!oldest-postgres",
        ...new Set(tests.map(({ path }) => path)),
        ...titles.length === 0 ? [] : ["--testNamePattern", titles.join("|")],
        ...bail ? ["--bail=1"] : [],
        `--testTimeout=${testTimeout}`,
        "--maxWorkers=1",
        "--reporter=json",
        `--outputFile=${report}`
      ],
      directory,
      env
    )
    if (!fs.existsSync(report)) return { passed: [], failed: [], error: output } satisfies Ended
    const { testResults } = JSON.parse(fs.readFileSync(report, "utf8")) as Report
    const all = testResults.flatMap(({ assertionResults, name }) => {
      const file = path.relative(fs.realpathSync(directory), name)
      return assertionResults.map(({ fullName, status }) => ({ name: `${file} ${fullName}`, status }))
    }).filter(({ name }) => tests.some((named) => isOf(named, name)))
    const ended = (wanted: string) => all.filter(({ status }) => status === wanted).map(({ name }) => name)
    const messages = testResults.flatMap(({ message }) => message === undefined || message === "" ? [] : [message])
    const passed = ended("passed")
    return {
      passed,
      failed: ended("failed"),
      error: messages[0] ?? (passed.length === 0 ? output : null)
    } satisfies Ended
  }
)
