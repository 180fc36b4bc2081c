/**
 * Every command of developers has help, and refuses a wrong call in one line. One process calls all of them, so that it loads what they
 * share once.
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

/** Imports a command for each call, with its arguments, and prints what each wrote until it ended the process. */
const script = `
  import { pathToFileURL } from "node:url"
  const calls = JSON.parse(process.env["CALLS"])
  const ended = []
  const write = process.stdout.write.bind(process.stdout)
  for (const [file, argument] of calls) {
    const end = { code: null, stdout: "", stderr: "" }
    process.argv = [process.execPath, file, argument]
    process.stdout.write = (text) => end.stdout += text
    process.stderr.write = (text) => end.stderr += text
    process.exit = (code) => {
      end.code ??= code
      throw new Error("ended")
    }
    await import(pathToFileURL(file).href + "?" + argument).catch((error) => error.message === "ended" || (end.stderr += error.stack))
    ended.push(end)
  }
  write(JSON.stringify(ended), () => process.reallyExit(0))`

/** What each call of a command with one argument wrote. */
const ended = new Promise<ReadonlyArray<Ended>>((resolve, reject) => {
  const calls = commands.flatMap(([, file]) => ["--help", "--no-such-option"].map((argument) => [file, argument]))
  execFile(
    process.execPath,
    ["--input-type=module", "--eval", script],
    { env: { ...process.env, CALLS: JSON.stringify(calls) } },
    (error, stdout) => error === null ? resolve(JSON.parse(stdout) as ReadonlyArray<Ended>) : reject(error)
  )
})

describe("The commands of developers", () => {
  it("are found by this test", () => {
    assert.includeMembers(commands.map(([name]) => name), [
      "bench",
      "bench:growth",
      "flood",
      "simulate",
      "chaos"
    ])
  })

  it.each(commands)(
    "npm run %s: --help says what it measures, its options and an example, and a wrong call is refused in one line",
    async (name) => {
      const [help, refused] = (await ended).slice(2 * commands.findIndex(([other]) => other === name))
      const { code, stderr, stdout } = help!
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.match(stdout, new RegExp(`^\`npm run ${name}\`: `))
      assert.include(stdout, `\n    npm run ${name} -- --`)
      assert.include(stdout, "\nOptions:\n")
      for (const [, line] of stdout.matchAll(/^ {2}--(\S+ [NX] .*)$/gm)) {
        assert.match(line!, /: [\d.,]+ to [\d.,]+/, "a number has its range")
        assert.match(line!, /\(default \S+\)$|, \d+ or with --|chosen by|Runs this seed/, "and its default")
      }
      assert.deepStrictEqual([refused!.code, refused!.stdout], [1, ""])
      assert.match(refused!.stderr, /^error: [^\n]+ \(see --help\)\n$/)
    }
  )
})
