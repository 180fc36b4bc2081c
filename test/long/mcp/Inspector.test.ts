/**
 * The lines of docs/agents.md that call the MCP inspector work as they are pasted. The test runs them in `sh`, against a demo of its
 * own.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { shellBlocks } from "../../fixtures/Markdown.ts"
import { freePort, serve } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

/** One line of the inspector's output. */
interface Output {
  readonly result: {
    readonly tools?: ReadonlyArray<{ readonly name: string }>
    readonly structuredContent?: {
      readonly advice: string
      readonly operation: { readonly state: string }
      readonly operations?: ReadonlyArray<{ readonly state: string }>
    }
  }
}

/** Runs the lines, and yields the results of the inspector and the commands that the shell ran. */
const paste = (lines: string, env: Readonly<Record<string, string>>) =>
  Effect.promise(async () => {
    const { stderr, stdout } = await promisify(execFile)("sh", ["-c", lines], { env: { ...process.env, ...env } })
    const commands = stderr.split("\n").filter((line) => line.startsWith("+ "))
    return { commands, results: stdout.trim().split("\n").map((line) => (JSON.parse(line) as Output).result) }
  })

describe("The lines of docs/agents.md for the MCP inspector", () => {
  it.live("list the tools and call two, in both versions of the protocol, with the token in no argument", () =>
    Effect.gen(function*() {
      const port = yield* freePort
      const demo = yield* serve(["--demo"], { DATA_DIR: yield* temporaryDirectory, PORT: String(port) })
      const [, token] = / TOKEN=(\S+)/.exec(demo.output.stdout)!
      const [lines] = shellBlocks("docs/agents.md", "## Try it").filter((block) => block.includes("inspect"))
      const atDemo = lines!.replaceAll("http://127.0.0.1:3000", `http://127.0.0.1:${port}`)
      // The shell shows each command with its arguments, as the list of processes does.
      const traced = `set -x\n${atDemo}`
      const env = { HOME: yield* temporaryDirectory, GATEWAY_TOKEN: token! }
      const run = (era: string, lines: string) => paste(lines.replaceAll("--cli", `--cli --protocol-era ${era}`), env)
      const { commands, results: [list, call, filtered] } = yield* run("modern", traced)
      assert.lengthOf(commands.filter((command) => command.startsWith("+ npx ")), 3)
      for (const command of commands) assert.notInclude(command, token!)
      assert.deepStrictEqual(
        list!.tools!.map(({ name }) => name).toSorted(),
        [
          "changes_since",
          "find_operation_by_key",
          "get_limits",
          "get_operation",
          "list_operations",
          "wait_for_operation"
        ]
      )
      const { advice, operation } = call!.structuredContent!
      assert.include(["accepted", "submitting", "indeterminate"], operation.state)
      assert.include(advice, "Do not send the request again and do not use a new key.")
      const states = filtered!.structuredContent!.operations!.map(({ state }) => state)
      assert.deepStrictEqual(states.filter((state) => state !== "indeterminate"), [])
      // The function and its first call: each start of `npx` takes seconds.
      const [first] = /^.*?^inspect .*?$/ms.exec(traced)!
      assert.deepStrictEqual((yield* run("legacy", first)).results, [list!])
    }).pipe(Effect.scoped))
})
