/** The workers as the parent manages them: each has proxies of its own, and is restarted when it dies. */
import { Schema } from "effect"
import * as path from "node:path"
import { Proxy, type Target } from "../../../fixtures/processes/Proxy.ts"
import type { BankName } from "./Banks.ts"
import { Daemon, type End } from "./Daemon.ts"
import type { MistakeName } from "./Mistakes.ts"
import type { BankKeys } from "./OpenBanking.ts"
import { type Blow, configVariable, type CrashPoint, Message, Order, WorkerConfig } from "./Plan.ts"
import { SentKeys } from "./SentKeys.ts"

const decodeMessage = Schema.decodeSync(Message)
const encodeOrder = Schema.encodeSync(Order)
const encodeConfig = Schema.encodeSync(WorkerConfig)

export interface CrewOptions {
  /** Path of `worker.ts`, bundled. */
  readonly program: string
  readonly size: number
  readonly directory: string
  readonly databaseTarget: Target
  readonly sandboxTarget: Target
  readonly username: string
  readonly database: string
  readonly mistake: MistakeName | null
  readonly bank: BankName | null
  readonly keys: BankKeys
}

/**
 * Milliseconds that a worker may take to end after SIGTERM. After a network fault, a statement may be on a dead connection: it
 * ends after `storeTimeout`, and the driver gives up the connection within ten seconds more. `drainTimeout` comes on top.
 */
const drainPatience = 40_000

/** Milliseconds after the start of a worker in which others are not struck, because it does their work meanwhile. */
export const settlingIn = 500

/** A worker, across its restarts. */
export class Worker {
  readonly databaseLink: Proxy
  readonly sandboxLink: Proxy
  readonly daemon: Daemon
  /** `leaving`: the worker was killed, or asked to end. */
  state: "starting" | "running" | "stopped" | "leaving" = "starting"
  order: Order | null = null
  /** The worker need not work until then, in milliseconds since 1970. */
  private excusedUntil = 0

  constructor(daemon: Daemon, databaseLink: Proxy, sandboxLink: Proxy) {
    this.daemon = daemon
    this.databaseLink = databaseLink
    this.sandboxLink = sandboxLink
  }

  /** Whether the worker must be able to work now. */
  get isHealthy(): boolean {
    return this.state === "running" && this.order === null && this.excusedUntil <= Date.now()
  }

  /** The worker lost its connections to the database, and has this many milliseconds to open others. */
  excuse(milliseconds: number): void {
    this.excusedUntil = Math.max(this.excusedUntil, Date.now() + milliseconds)
  }

  /** The worker has started, or works again. */
  hasStarted(): void {
    this.state = "running"
    this.excuse(settlingIn)
  }

  /** Orders the worker to strike itself when it next reaches this point. */
  command(point: CrashPoint, blow: Blow): void {
    this.order = { point, blow }
    this.daemon.tell(encodeOrder(this.order))
  }

  kill(signal: "SIGKILL" | "SIGTERM"): void {
    this.state = "leaving"
    this.daemon.signal(signal)
  }

  stop(milliseconds: number): void {
    this.state = "stopped"
    this.daemon.signal("SIGSTOP")
    setTimeout(
      this.ifStopped(() => {
        this.daemon.signal("SIGCONT")
        this.hasStarted()
      }),
      milliseconds
    )
  }

  /** The worker reported its stop, which may come later on a busy machine. It reports when it runs again. */
  hasStruck(milliseconds: number): void {
    this.state = "stopped"
    const resume = this.ifStopped(() => {
      this.daemon.signal("SIGCONT")
      setTimeout(resume, 50)
    })
    setTimeout(resume, milliseconds)
  }

  /** Acts unless the worker continues already, or its process is another one. */
  private ifStopped(act: () => void): () => void {
    const [pid] = this.daemon.pids
    return () => {
      if (this.daemon.pids[0] === pid && this.state === "stopped") act()
    }
  }
}

export class Crew {
  readonly workers: Array<Worker> = []
  /** How often each idempotency key was sent to the sandbox. */
  readonly sent = new SentKeys()
  readonly deaths: Array<string> = []
  starts = 0
  /** Called when a worker carries out its order. */
  onStruck: (worker: Worker, order: Order) => void = () => {}
  /** Called when a worker ended before it reached the point. */
  onOrderLost: (order: Order) => void = () => {}
  private readonly options: CrewOptions
  private isClosing = false

  constructor(options: CrewOptions) {
    this.options = options
  }

  healthy(): ReadonlyArray<Worker> {
    return this.workers.filter((worker) => worker.isHealthy)
  }

  async start(): Promise<void> {
    const { bank, database, databaseTarget, directory, keys, mistake, program, sandboxTarget, size, username } =
      this.options
    for (let number = 1; number <= size; number++) {
      const [databaseLink, sandboxLink] = [new Proxy(databaseTarget), new Proxy(sandboxTarget, this.sent.watch)]
      const [databasePort, sandboxPort] = [await databaseLink.listen(), await sandboxLink.listen()]
      const daemon = new Daemon({
        name: `worker-${number}`,
        logs: directory,
        command: [process.execPath, program],
        env: {
          NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? path.join(directory, "compiled"),
          [configVariable]: encodeConfig({ databasePort, sandboxPort, username, database, mistake, bank, keys })
        },
        onLine: (line) => this.hear(worker, decodeMessage(line)),
        onEnd: (end) => this.replace(worker, end)
      })
      const worker = new Worker(daemon, databaseLink, sandboxLink)
      this.workers.push(worker)
      this.run(worker)
    }
  }

  /** Asks all workers to end, and resolves to their exits. No worker is restarted any more. */
  async drain(): Promise<ReadonlyArray<End>> {
    this.isClosing = true
    const ends = this.workers.map(({ daemon }) => daemon.ended)
    for (const worker of this.workers) worker.kill("SIGTERM")
    const impatience = setTimeout(() => this.workers.forEach((worker) => worker.kill("SIGKILL")), drainPatience)
    return Promise.all(ends).finally(() => clearTimeout(impatience))
  }

  async close(): Promise<void> {
    this.isClosing = true
    await Promise.all(this.workers.map(({ daemon }) => daemon.kill()))
    for (const { databaseLink, sandboxLink } of this.workers) {
      databaseLink.close()
      sandboxLink.close()
    }
  }

  private run(worker: Worker): void {
    if (this.isClosing) return
    this.starts++
    worker.state = "starting"
    worker.daemon.start()
  }

  private hear(worker: Worker, message: Message): void {
    switch (message._tag) {
      case "Ready":
      case "Resumed":
        if (worker.state === "starting" || worker.state === "stopped") worker.hasStarted()
        return
      case "Struck":
        worker.order = null
        if (message.blow === "kill") worker.state = "leaving"
        this.onStruck(worker, message)
    }
  }

  private replace(worker: Worker, { code, signal }: End): void {
    if (worker.order !== null) this.onOrderLost(worker.order)
    worker.order = null
    // A worker without a database refuses to start. Every other end was ordered.
    const refused = worker.state === "starting"
    if (!refused && (worker.state !== "leaving" || (signal !== "SIGKILL" && code !== 0))) {
      this.deaths.push(`${worker.daemon.name} ended by itself, code ${code}, signal ${signal}`)
    }
    setTimeout(() => this.run(worker), refused ? 200 : 0)
  }
}
