/** Commands in the networks of the room, and as the user postgres. */
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { promisify } from "node:util"
import type { Host } from "./Plan.ts"

const execute = promisify(execFile)

/** The command in the network of this host. The clients' network is that of the room itself. */
export const within = (host: Host, command: ReadonlyArray<string>): ReadonlyArray<string> =>
  host === "app" ? command : ["ip", "netns", "exec", host, ...command]

export interface RunOptions {
  readonly host?: Host
  readonly env?: NodeJS.ProcessEnv
  readonly input?: string
  /** Milliseconds after which it is ended. */
  readonly timeout?: number
}

/** Runs a command to its end, and resolves to its output. Rejects with its error output. */
export const run = async (
  command: ReadonlyArray<string>,
  { env, host = "app", input, timeout = 120_000 }: RunOptions = {}
): Promise<string> => {
  const [program, ...args] = within(host, command)
  const running = execute(program!, args, { env: { ...process.env, ...env }, timeout, maxBuffer: 64 << 20 })
  // It may end before it has read its input.
  running.child.stdin?.on("error", () => {}).end(input)
  return (await running).stdout
}

/** Gives a file to the user postgres. */
export const giveToPostgres = (file: string): void => {
  const [, , uid, gid] = /^postgres:.*$/mu.exec(fs.readFileSync("/etc/passwd", "utf8"))![0].split(":").map(Number)
  fs.chownSync(file, uid!, gid!)
}

/** The command as the user postgres, who owns the data of the servers. */
export const asPostgres = (command: ReadonlyArray<string>): ReadonlyArray<string> => [
  "setpriv",
  "--reuid",
  "postgres",
  "--regid",
  "postgres",
  "--init-groups",
  ...command
]
