/** The processes of a contestant in a scene: workers, each with a link of its own to the database; a server; and commands. */
import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Readable, Writable } from "node:stream"
import { Proxy, type Target } from "../../test/fixtures/processes/Proxy.ts"
import { poll, sleep, when } from "../../test/long/faults/kit/Clock.ts"
import { Daemon, signal } from "../../test/long/faults/kit/Daemon.ts"

/** Seconds that a command, or the start of a process, may take on a busy machine. */
export const patience = 90

export interface ProcessesOptions {
  readonly name: string
  /** Directory of the logs. */
  readonly directory: string
  readonly program: string
  readonly environment: NodeJS.ProcessEnv
  readonly target: Target
  readonly note: (what: string) => void
}

interface Worker {
  readonly daemon: Daemon
  readonly link: Proxy
  readonly codeVersion: number
  isExpectedToEnd: boolean
}

export const urlAt = (port: number) => `postgres://postgres@127.0.0.1:${port}/chaos`

/** Resolves to the lines that a command tells until it ends, or until an empty line. */
const answerOf = async (
  command: string,
  child: ChildProcessByStdio<Writable, Readable, null>
): Promise<ReadonlyArray<string>> => {
  const { promise, reject, resolve } = Promise.withResolvers<void>()
  let output = ""
  const take = (text: string) => {
    output += text
    if (output === "\n" || output.endsWith("\n\n")) resolve()
  }
  const end = (code: number | null) => code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}`))
  const limit = setTimeout(() => child.kill("SIGKILL"), patience * 1000)
  child.once("error", reject).once("close", end).stdout.on("data", take)
  try {
    await promise
    return output.split("\n").filter((line) => line.trim() !== "")
  } finally {
    clearTimeout(limit)
    child.off("error", reject).off("close", end).stdout.off("data", take)
  }
}

/** Tries again after a failure: the database may be busy or down. */
const repeated = async <A>(attempt: () => Promise<A>): Promise<A> => {
  for (let failures = 0;;) {
    try {
      return await attempt()
    } catch (error) {
      if (++failures === 10) throw error
      await sleep(500)
    }
  }
}

/** A process and those that it started, such as a server behind a wrapper. */
const withChildren = (pid: number): ReadonlyArray<number> => {
  try {
    const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" })
    return [pid, ...children.split("\n").filter((line) => line.trim() !== "").map(Number)]
  } catch {
    return [pid]
  }
}

export class Processes {
  private readonly options: ProcessesOptions
  private readonly workers = new Map<number, Worker>()
  private server: Daemon | null = null
  private teller: ReturnType<Processes["command"]> | null = null
  private isClosing = false

  constructor(options: ProcessesOptions) {
    this.options = options
  }

  /** Starts a worker, and waits until it takes work. */
  async start(worker: number, codeVersion = 1): Promise<void> {
    const { environment, name, note, target } = this.options
    const link = this.workers.get(worker)?.link ?? new Proxy(target)
    if (!this.workers.has(worker)) await link.listen()
    const env = {
      DATABASE_URL: urlAt(link.port),
      WORKER: String(worker),
      WEBHOOK_PORT: String(Number(environment["PORT_BASE"]) + 10 + worker),
      CODE_VERSION: String(codeVersion)
    }
    const { daemon, isReady } = this.daemon(`worker-${worker}`, "work", env, (end) => {
      if (process.isExpectedToEnd || this.isClosing || this.workers.get(worker) !== process) return
      note(`worker ${worker} ended by itself (${end}), and is started again`)
      // As a supervisor does.
      setTimeout(() => this.isClosing || process.isExpectedToEnd || daemon.start(), 500)
    })
    const process: Worker = { daemon, link, codeVersion, isExpectedToEnd: false }
    this.workers.set(worker, process)
    daemon.start()
    if (!await isReady()) throw new Error(`worker ${worker} of ${name} was not ready`)
    note(`worker ${worker} works${codeVersion === 1 ? "" : `, with version ${codeVersion} of its code`}`)
  }

  linkOf(worker: number): Proxy {
    return this.workers.get(worker)!.link
  }

  get links(): ReadonlyArray<Proxy> {
    return [...this.workers.values()].map(({ link }) => link)
  }

  async kill(worker: number): Promise<void> {
    const process = this.workers.get(worker)!
    process.isExpectedToEnd = true
    this.options.note(`worker ${worker} gets kill -9`)
    await process.daemon.kill()
  }

  /** SIGTERM, and SIGKILL after these milliseconds. */
  async end(worker: number, milliseconds: number): Promise<void> {
    const process = this.workers.get(worker)!
    process.isExpectedToEnd = true
    this.options.note(`worker ${worker} gets SIGTERM`)
    process.daemon.signal("SIGTERM")
    const ended = await Promise.race([process.daemon.ended.then(() => true), sleep(milliseconds).then(() => false)])
    if (!ended) await this.kill(worker)
  }

  /** Ends all workers the same way. The result starts them again. */
  async endAll(milliseconds: number): Promise<() => Promise<unknown>> {
    const all = [...this.workers]
    await Promise.all(all.map(([worker]) => this.end(worker, milliseconds)))
    return () => Promise.all(all.map(([worker, { codeVersion }]) => this.start(worker, codeVersion)))
  }

  freeze(worker: number): void {
    this.options.note(`worker ${worker} is frozen`)
    this.workers.get(worker)!.daemon.signal("SIGSTOP")
  }

  thaw(worker: number): void {
    this.options.note(`worker ${worker} goes on`)
    this.workers.get(worker)!.daemon.signal("SIGCONT")
  }

  /** Whether the contestant's own server keeps its state, and not the database. */
  get hasServer(): boolean {
    return this.server !== null
  }

  async startServer(): Promise<void> {
    const { daemon, isReady } = this.daemon("server", "server", {})
    this.server = daemon
    daemon.start()
    if (!await isReady()) throw new Error(`the server of ${this.options.name} was not ready`)
  }

  private command(command: string): ChildProcessByStdio<Writable, Readable, null> {
    const { directory, environment, program } = this.options
    const log = fs.openSync(path.join(directory, `${command}.log`), "a")
    // The cast: `stdio` gives both pipes.
    const child = spawn(process.execPath, [program, command], {
      env: { ...process.env, ...environment },
      stdio: ["pipe", "pipe", log]
    }) as ChildProcessByStdio<Writable, Readable, null>
    fs.closeSync(log)
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8")
    return child
  }

  /** Runs a command with these lines on its standard input, and resolves to the lines of its output. */
  run(command: string, lines: ReadonlyArray<string> = []): Promise<ReadonlyArray<string>> {
    return repeated(() => {
      const child = this.command(command)
      child.stdin.end(lines.map((line) => `${line}\n`).join(""))
      return answerOf(command, child)
    })
  }

  /** The lines of `outcomes`. Its process tells them as often as it gets a line, so each look costs no start of a process. */
  outcomes(): Promise<ReadonlyArray<string>> {
    return repeated(() => {
      const child = this.teller ?? this.command("outcomes").once("close", () => this.teller = null)
      this.teller = child
      child.stdin.write("\n")
      return answerOf("outcomes", child)
    })
  }

  async close(): Promise<void> {
    this.isClosing = true
    this.teller?.kill("SIGKILL")
    await Promise.all([...this.workers.values()].map(({ daemon }) => daemon.kill()))
    const pids = this.server?.pids.flatMap(withChildren) ?? []
    await this.server?.kill()
    signal(pids, "SIGKILL")
    for (const link of this.links) link.close()
  }

  private daemon(name: string, command: string, env: NodeJS.ProcessEnv, onEnd: (end: string) => void = () => {}) {
    const { directory, environment, program } = this.options
    let hasTold = false
    const daemon = new Daemon({
      name,
      logs: directory,
      command: [process.execPath, program, command],
      env: { ...environment, ...env },
      onLine: (line) => {
        if (line.trim() === "ready") hasTold = true
      },
      onEnd: ({ code, signal }) => onEnd(`code ${code}, signal ${signal}`)
    })
    return { daemon, isReady: async () => await poll(patience, async () => when(hasTold), 20) === true }
  }
}
