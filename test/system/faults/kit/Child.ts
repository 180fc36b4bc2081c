/** A process of the run, which can be started and struck by signals, and always ends with the run. */
import { Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as readline from "node:readline"
import { fileURLToPath } from "node:url"
import { configVariable, Message } from "./Plan.ts"

const decodeMessage = Schema.decodeSync(Message)

/** How a process ended. */
export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ChildOptions {
  /** Name of a script beside this one. */
  readonly script: string
  /** JSON for the script. */
  readonly config: string
  /** Called with the standard error. */
  readonly log: string
  /** Directory of Node's compile cache: most processes of a run are restarts. */
  readonly compileCache: string
  readonly onMessage: (message: Message) => void
  readonly onEnd: (end: End) => void
}

const living = new Set<ChildProcess>()

// The end of this process, for any reason, ends its children, stopped ones too.
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL")
})

export class Child {
  readonly pid: number
  readonly ended: Promise<End>
  private readonly process: ChildProcess

  constructor({ compileCache, config, log, onEnd, onMessage, script }: ChildOptions) {
    const stderr = fs.openSync(log, "a")
    this.process = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
      env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: compileCache, [configVariable]: config },
      stdio: ["pipe", "pipe", stderr]
    })
    fs.closeSync(stderr)
    const { pid, stdin, stdout } = this.process
    if (pid === undefined || stdin === null || stdout === null) throw new Error(`could not start ${script}`)
    this.pid = pid
    living.add(this.process)
    stdin.on("error", () => {})
    readline.createInterface({ input: stdout }).on("line", (line) => onMessage(decodeMessage(line)))
    this.ended = new Promise((resolve) => {
      this.process.once("close", (code, signal) => {
        living.delete(this.process)
        onEnd({ code, signal })
        resolve({ code, signal })
      })
    })
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal)
  }

  tell(line: string): void {
    this.process.stdin?.write(`${line}\n`)
  }
}
