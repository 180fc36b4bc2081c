/** The workers as the parent manages them: each has proxies of its own, and is restarted when it dies. */
import { Schema } from "effect"
import * as path from "node:path"
import { Proxy, type Target } from "../../../fixtures/Proxy.ts"
import { Child, type End } from "./Child.ts"
import { type Blow, type CrashPoint, type Message, Order, type PlantedBug, WorkerConfig } from "./Plan.ts"
import { SentKeys } from "./SentKeys.ts"

const encodeOrder = Schema.encodeSync(Order)
const encodeConfig = Schema.encodeSync(WorkerConfig)

export interface CrewOptions {
  readonly size: number
  readonly directory: string
  readonly databaseTarget: Target
  readonly sandboxTarget: Target
  readonly username: string
  readonly database: string
  readonly bug: PlantedBug | null
}

/**
 * Milliseconds that a worker may take to end after SIGTERM. After a network fault, a statement may be on a dead connection: it
 * ends after `storeTimeout`, and the driver gives up the connection within ten seconds more. `drainTimeout` comes on top.
 */
const drainPatience = 40_000

/** Milliseconds after the start of a worker in which others are not struck, because it does their work meanwhile. */
export const settlingIn = 500

/** The place of one worker, across its restarts. */
export class Worker {
  readonly name: string
  readonly databaseLink: Proxy
  readonly sandboxLink: Proxy
  child: Child | null = null
  /** `leaving`: the worker was killed, or asked to end. */
  state: "starting" | "running" | "stopped" | "leaving" = "starting"
  order: Order | null = null
  /** The worker need not work until then, in milliseconds since 1970. */
  private excusedUntil = 0

  constructor(name: string, databaseLink: Proxy, sandboxLink: Proxy) {
    this.name = name
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
    this.child?.tell(encodeOrder(this.order))
  }

  kill(signal: "SIGKILL" | "SIGTERM"): void {
    this.state = "leaving"
    this.child?.signal(signal)
  }

  stop(milliseconds: number): void {
    this.state = "stopped"
    const { child } = this
    child?.signal("SIGSTOP")
    setTimeout(() => {
      if (this.child !== child || this.state !== "stopped") return
      child?.signal("SIGCONT")
      this.hasStarted()
    }, milliseconds)
  }

  /** The worker reported its stop, which may come later on a busy machine. It reports when it runs again. */
  hasStruck(milliseconds: number): void {
    this.state = "stopped"
    const { child } = this
    const resume = () => {
      if (this.child !== child || this.state !== "stopped") return
      child?.signal("SIGCONT")
      setTimeout(resume, 50)
    }
    setTimeout(resume, milliseconds)
  }
}

export class Crew {
  readonly workers: ReadonlyArray<Worker>
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
    this.workers = Array.from({ length: options.size }, (_, index) =>
      new Worker(
        `worker-${index + 1}`,
        new Proxy(options.databaseTarget),
        new Proxy(options.sandboxTarget, this.sent.watch)
      ))
  }

  async start(): Promise<void> {
    for (const worker of this.workers) {
      const config = encodeConfig({
        databasePort: await worker.databaseLink.listen(),
        sandboxPort: await worker.sandboxLink.listen(),
        username: this.options.username,
        database: this.options.database,
        bug: this.options.bug
      })
      this.fill(worker, config)
    }
  }

  healthy(): ReadonlyArray<Worker> {
    return this.workers.filter((worker) => worker.isHealthy)
  }

  /** Asks all workers to end, and resolves to their exits. No worker is restarted any more. */
  async drain(): Promise<ReadonlyArray<End>> {
    this.isClosing = true
    const children = this.workers.flatMap(({ child }) => child ?? [])
    for (const worker of this.workers) worker.kill("SIGTERM")
    const impatience = setTimeout(() => children.forEach((child) => child.signal("SIGKILL")), drainPatience)
    const ends = await Promise.all(children.map(({ ended }) => ended))
    clearTimeout(impatience)
    return ends
  }

  async close(): Promise<void> {
    this.isClosing = true
    const children = this.workers.flatMap(({ child }) => child ?? [])
    for (const child of children) child.signal("SIGKILL")
    await Promise.all(children.map(({ ended }) => ended))
    for (const { databaseLink, sandboxLink } of this.workers) {
      databaseLink.close()
      sandboxLink.close()
    }
  }

  private fill(worker: Worker, config: string): void {
    if (this.isClosing) return
    this.starts++
    worker.state = "starting"
    worker.child = new Child({
      script: "./worker.ts",
      config,
      log: path.join(this.options.directory, `${worker.name}.log`),
      compileCache: path.join(this.options.directory, "compiled"),
      onMessage: (message) => this.hear(worker, message),
      onEnd: (end) => this.replace(worker, config, end)
    })
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

  private replace(worker: Worker, config: string, { code, signal }: End): void {
    worker.child = null
    if (worker.order !== null) this.onOrderLost(worker.order)
    worker.order = null
    // A worker without a database refuses to start. Every other end was ordered.
    const refused = worker.state === "starting"
    if (!refused && (worker.state !== "leaving" || (signal !== "SIGKILL" && code !== 0))) {
      this.deaths.push(`${worker.name} ended by itself, code ${code}, signal ${signal}`)
    }
    setTimeout(() => this.fill(worker, config), refused ? 200 : 0)
  }
}
