/** A restart with start settings keeps the process as its parent knows it. The tests run a program with settings. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"

interface Report {
  readonly pid: number
  readonly execArgv: ReadonlyArray<string>
  readonly args: ReadonlyArray<string>
  readonly line: string
}

const program = new URL("../../fixtures/processes/restarting.ts", import.meta.url).pathname

const run = async (
  { env = {}, ipc = false, options = [] }: {
    readonly env?: Readonly<Record<string, string>>
    readonly ipc?: boolean
    readonly options?: ReadonlyArray<string>
  }
) => {
  const child = spawn(process.execPath, [...options, program, "serve", "--base-url", "a b"], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["pipe", "pipe", "pipe", ...ipc ? ["ipc" as const] : []]
  })
  const exited = once(child, "exit") as Promise<[number | null, string | null]>
  let stderr = ""
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => stderr += chunk)
  child.stdin!.write("a line that came before the restart")
  const [answer] = await once(child.stdout!.setEncoding("utf8"), "data") as [string]
  child.kill("SIGTERM")
  const [code] = await exited
  return { pid: child.pid, report: JSON.parse(answer) as Report, code, stderr }
}

// Windows has no execve.
describe.runIf(process.execve !== undefined)("A restart with start settings", () => {
  it("keeps process id, arguments, standard streams, signals and exit code, and writes no warning", async () => {
    const { code, pid, report, stderr } = await run({ options: ["--no-deprecation"] })
    assert.deepStrictEqual(report, {
      pid: pid!,
      execArgv: ["--no-deprecation", "--max-semi-space-size=16"],
      args: ["serve", "--base-url", "a b"],
      line: "a line that came before the restart"
    })
    assert.deepStrictEqual([code, stderr], [7, ""])
  })

  it("does not happen if the user chose all settings", async () => {
    const { report } = await run({ env: { NODE_OPTIONS: "--max-semi-space-size=5" } })
    assert.deepStrictEqual(report.execArgv, [])
  })

  it("does not happen in the child of another Node, which would lose its channel", async () => {
    const { report } = await run({ ipc: true })
    assert.deepStrictEqual(report.execArgv, [])
  })
})
