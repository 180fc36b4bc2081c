/** Processes of the room: each has its log, and is struck by its process id. The end of the room ends all of them. */
import { type ChildProcess, execFile, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import type { Host } from "../cluster/Plan.ts"

const execute = promisify(execFile)

/** The command in the network of this host. The clients' network is that of the room itself. */
const within = (host: Host, command: ReadonlyArray<string>): ReadonlyArray<string> =>
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

export const signal = (pids: ReadonlyArray<number>, name: NodeJS.Signals): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, name)
    } catch {
      // It has ended.
    }
  }
}

export interface DaemonOptions {
  readonly name: string
  readonly command: ReadonlyArray<string>
  readonly logs: string
  readonly host?: Host
  readonly env?: NodeJS.ProcessEnv
}

export class Daemon {
  readonly name: string
  private readonly options: DaemonOptions
  private readonly log: string
  private child: ChildProcess | null = null
  private ended: Promise<void> = Promise.resolve()

  constructor(options: DaemonOptions) {
    this.name = options.name
    this.options = options
    this.log = path.join(options.logs, `${options.name}.log`)
  }

  get isRunning(): boolean {
    return this.child !== null
  }

  get pids(): ReadonlyArray<number> {
    return this.child?.pid === undefined ? [] : [this.child.pid]
  }

  start(): void {
    if (this.child !== null) return
    const { command, env, host = "app" } = this.options
    const [program, ...args] = within(host, command)
    const log = fs.openSync(this.log, "a")
    const child = spawn(program!, args, { env: { ...process.env, ...env }, stdio: ["ignore", log, log] })
    fs.closeSync(log)
    this.child = child
    this.ended = new Promise((resolve) => {
      const end = () => {
        if (this.child === child) this.child = null
        resolve()
      }
      child.once("exit", end)
      child.once("error", end)
    })
  }

  /** Whether its log has this text. */
  hasSaid(text: string): boolean {
    return fs.readFileSync(this.log, "utf8").includes(text)
  }

  async kill(name: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const { pids } = this
    this.child = null
    signal(pids, name)
    await this.ended
  }
}
