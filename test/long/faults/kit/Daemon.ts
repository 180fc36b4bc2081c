/** Processes of a run: each has its log, can be struck by signals and started again, and ends with this process. */
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as readline from "node:readline"

/** How a process ended. */
export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface DaemonOptions {
  readonly name: string
  readonly command: ReadonlyArray<string>
  /** Directory of the log. */
  readonly logs: string
  /** Added to the environment of this process. */
  readonly env?: NodeJS.ProcessEnv
  /** Takes the lines of the standard output, which else go to the log. Then the standard input is open until this process ends. */
  readonly onLine?: (line: string) => void
  readonly onEnd?: (end: End) => void
}

const living = new Set<ChildProcess>()

// The end of this process, for any reason, ends its children, stopped ones too.
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL")
})

export const signal = (pids: ReadonlyArray<number>, name: NodeJS.Signals): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, name)
    } catch {
      // It has ended.
    }
  }
}

export class Daemon {
  readonly name: string
  /** Resolves when the process that was started last has ended. */
  ended: Promise<End> = Promise.resolve({ code: null, signal: null })
  private readonly options: DaemonOptions
  private readonly log: string
  private child: ChildProcess | null = null

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

  /** The lines of its log. */
  get lines(): ReadonlyArray<string> {
    return fs.existsSync(this.log) ? fs.readFileSync(this.log, "utf8").split("\n") : []
  }

  /** Starts it, unless it runs. */
  start(): void {
    if (this.child !== null) return
    const { command: [program, ...args], env, onEnd, onLine } = this.options
    const log = fs.openSync(this.log, "a")
    const child = spawn(program!, args, {
      env: { ...process.env, ...env },
      stdio: onLine === undefined ? ["ignore", log, log] : ["pipe", "pipe", log]
    })
    fs.closeSync(log)
    this.child = child
    living.add(child)
    child.stdin?.on("error", () => {})
    if (onLine !== undefined) readline.createInterface({ input: child.stdout! }).on("line", onLine)
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null) => {
        living.delete(child)
        if (this.child === child) this.child = null
        onEnd?.({ code, signal })
        resolve({ code, signal })
      }
      child.once("close", end)
      child.once("error", () => end(null, null))
    })
  }

  signal(name: NodeJS.Signals): void {
    signal(this.pids, name)
  }

  /** Writes a line to its standard input. */
  tell(line: string): void {
    this.child?.stdin?.write(`${line}\n`)
  }

  /** Resolves when it has ended. */
  async kill(name: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const { ended, pids } = this
    this.child = null
    signal(pids, name)
    await ended
  }
}
