/**
 * Every command of developers has help, and refuses a wrong call in one line. The tests start each of them as npm does.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import * as fs from "node:fs"

const { scripts } = JSON.parse(fs.readFileSync("package.json", "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>
}

/** The commands that measure or torture, and their scripts. */
const commands = Object.entries(scripts).flatMap(([name, line]) => {
  const [, file] = /^node ((?:bench|test)\/\S+\.ts)$/.exec(line) ?? []
  return file === undefined ? [] : [[name, file] as const]
})

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const call = (file: string, ...args: ReadonlyArray<string>) =>
  new Promise<Ended>((resolve) =>
    execFile(
      process.execPath,
      [file, ...args],
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    )
  )

describe("The commands of developers", () => {
  it("are found by this test", () => {
    assert.includeMembers(commands.map(([name]) => name), [
      "bench",
      "bench:growth",
      "flood",
      "simulate",
      "chaos",
      "storm"
    ])
  })

  it.each(commands)(
    "npm run %s: --help says what it measures, its options and an example, and a wrong call is refused in one line",
    async (name, file) => {
      const { code, stderr, stdout } = await call(file, "--help")
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.match(stdout, new RegExp(`^\`npm run ${name}\`: `))
      assert.include(stdout, `\n    npm run ${name} -- --`)
      assert.include(stdout, "\nOptions:\n")
      for (const [, line] of stdout.matchAll(/^ {2}--(\S+ [NX] .*)$/gm)) {
        assert.match(line!, /: [\d.,]+ to [\d.,]+/, "a number has its range")
        assert.match(line!, /\(default \S+\)$|, \d+ or with --|chosen by|Runs this seed/, "and its default")
      }
      const refused = await call(file, "--no-such-option")
      assert.deepStrictEqual([refused.code, refused.stdout], [1, ""])
      assert.match(refused.stderr, /^error: [^\n]+ \(see --help\)\n$/)
    }
  )
})
