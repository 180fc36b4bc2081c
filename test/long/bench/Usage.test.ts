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

const refused = { code: 1, stdout: "" }

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

  it.each(commands)("npm run %s: --help says what it measures, its options and an example", async (name, file) => {
    const { code, stderr, stdout } = await call(file, "--help")
    assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
    assert.match(stdout, new RegExp(`^\`npm run ${name}\`: `))
    assert.include(stdout, `\n    npm run ${name} -- --`)
    assert.include(stdout, "\nOptions:\n")
    for (const [, line] of stdout.matchAll(/^ {2}--(\S+ [NX] .*)$/gm)) {
      assert.match(line!, /: [\d.,]+ to [\d.,]+/, "a number has its range")
      assert.match(line!, /\(default \S+\)$|, \d+ or with --|chosen by|Runs this seed/, "and its default")
    }
  })

  it.each(commands)(
    "npm run %s refuses an unknown option, a stray argument and a wrong value in one line",
    async (_, file) => {
      const help = (await call(file, "--help")).stdout
      const [, numeric] = /^ {2}(--\S+) [NX] /m.exec(help) ?? []
      const wrong = [["--no-such-option"], ["stray"], ...numeric === undefined ? [] : [[numeric, "many"]]]
      for (const args of wrong) {
        const { code, stderr, stdout } = await call(file, ...args)
        assert.deepStrictEqual({ code, stdout }, refused)
        assert.match(stderr, /^error: [^\n]+ \(see --help\)\n$/)
      }
    }
  )
})
