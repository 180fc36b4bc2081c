/**
 * The bar of a command on a real terminal, which `script` of util-linux makes. The command accepts lines that the test types, so
 * that the test decides how long the work takes.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { inject } from "vitest"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { environment, result, urlOf } from "../../fixtures/processes/CommandLine.ts"

const hasScript = spawnSync("script", ["--version"], { encoding: "utf8" }).stdout?.includes("util-linux") === true

const line = (key: string) => `{"type":"payment","key":"${key}","payload":{}}\n`

const terminal = (columns: number, command: string, env: Readonly<Record<string, string>>) => {
  const child = spawn("script", ["-qec", `stty cols ${columns}; exec ${command}`, "/dev/null"], {
    env: environment({ TERM: "xterm", ...env })
  })
  let screen = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => screen += text)
  return {
    type: (text: string) => child.stdin.write(text),
    shows: async (text: RegExp) => {
      while (!text.test(screen)) await once(child.stdout, "data")
    },
    /** The exit code, and all that was written. */
    end: async () => {
      const [code] = await once(child, "close") as [number | null]
      return { code, screen }
    }
  }
}

const onDatabase = (body: (env: Readonly<Record<string, string>>, grant: string, directory: string) => Promise<void>) =>
  Effect.scoped(Effect.gen(function*() {
    const env = { DATABASE_URL: urlOf(yield* createDatabase()) }
    const names = ["--owner", "owner", "--subject", "subject", "--client", "client"]
    const { grant_id } = yield* result<{ readonly grant_id: string }>(["grants", "issue", ...names], env)
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "progress-"))
    yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(directory, { recursive: true })))
    yield* Effect.promise(() => body(env, grant_id, directory))
  })).pipe(Effect.provide(Platform))

const accepting = (grant: string, from: string) =>
  `${process.execPath} ${inject("command")} operations accept --grant ${grant} --from ${from}`

const erase = "\r\u001B[K"

/** What the terminal got, between erasures and returns to the left. */
const piecesOf = (screen: string) => screen.replaceAll(erase, "\r").split(/[\r\n]+/)

describe.skipIf(!hasScript)("A command on a terminal", () => {
  it.live("shows a bar that fits into a narrow terminal, erases it, and prints only results on standard output", () =>
    onDatabase(async (env, grant, directory) => {
      const out = path.join(directory, "out")
      const { end, shows, type } = terminal(24, `${accepting(grant, "-")} > ${out}`, env)
      type(line("a"))
      await shows(/Accepting {2}1 lines/)
      type(line("b"))
      await shows(/Accepting {2}2 lines/)
      type("\u0004")
      const { code, screen } = await end()
      assert.strictEqual(code, 0)
      const bars = piecesOf(screen).filter((text) => text.startsWith("Accepting"))
      assert.isAbove(bars.length, 1)
      for (const bar of bars) assert.isAtMost(bar.length, 23)
      assert.isTrue(screen.endsWith(`\r${erase}`), "the last bar is erased")
      assert.notInclude(piecesOf(screen).join(), "\u001B", "no colour")
      const results = fs.readFileSync(out, "utf8").trimEnd().split("\n").map((text) => JSON.parse(text))
      assert.deepStrictEqual(results.map(({ created }) => created), [true, true])
    }))

  it.live("erases the bar on Ctrl-C", () =>
    onDatabase(async (env, grant, directory) => {
      const { end, shows, type } = terminal(80, `${accepting(grant, "-")} > ${path.join(directory, "out")}`, env)
      type(line("a"))
      await shows(/Accepting {2}1 lines/)
      type("\u0003")
      const { screen } = await end()
      assert.isTrue(screen.endsWith(erase))
    }))

  it.live("writes results above the bar", () =>
    onDatabase(async (env, grant) => {
      const { end, shows, type } = terminal(80, accepting(grant, "-"), env)
      type(line("a"))
      await shows(/Accepting {2}1 lines/)
      type(line("b"))
      await shows(/Accepting {2}2 lines/)
      type("\u0004")
      const { screen } = await end()
      const results = piecesOf(screen).filter((text) => text.includes("\"created\""))
      assert.lengthOf(results, 2)
      for (const text of results) assert.isTrue(JSON.parse(text).created)
    }))
})
