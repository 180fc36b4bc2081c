/** The world of one scene: a contestant's processes, its database, the bank, and the networks between them. */
import { Effect } from "effect"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { openCluster, prepareCluster } from "../../src/node/embedded/Cluster.ts"
import { Proxy } from "../../test/fixtures/processes/Proxy.ts"
import { monotonic, poll, sleep, slowness, when } from "../../test/long/faults/kit/Clock.ts"
import { Daemon } from "../../test/long/faults/kit/Daemon.ts"
import { clockEnvironment, programsWithClock, setClock } from "../../test/long/faults/kit/JumpingClock.ts"
import { Database } from "./database.ts"
import { patience, Processes, urlAt } from "./processes.ts"
import {
  type BankConfig,
  type BankEvent,
  type BankOrder,
  configVariable,
  type Contestant,
  type KeyMode,
  type Outcome,
  type Payment,
  type VariantName
} from "./types.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** What the worlds of a run share. */
export interface Stage {
  readonly directory: string
  /** An empty cluster of PostgreSQL, which each world copies. */
  readonly template: string
  /** Directory of PostgreSQL's programs. */
  readonly postgresPrograms: string
  /** The program of a contestant, bundled if it has no packages of its own. */
  readonly programOf: (contestant: Contestant) => string
}

export interface WorldOptions {
  readonly stage: Stage
  readonly name: string
  readonly contestant: Contestant
  readonly variant: VariantName
  readonly keys: KeyMode
  readonly hasStandby: boolean
  /** Whether clocks can jump. The library costs every process time. */
  readonly hasClocks: boolean
}

/** A step of the timeline. Without payments it concerns all of them. */
export interface Note {
  readonly at: number
  readonly what: string
  readonly id?: string
}

const leaseSeconds = 5 * slowness
const concurrency = 16
const token = "token-of-the-payer"

/** Milliseconds between SIGTERM and SIGKILL when hours pass: the default of Kubernetes. */
const grace = 30_000 * slowness

/** Milliseconds within which a process has noticed that its clock was set. */
const noticing = 1200

const portsOfWorld = 20

const isFree = (port: number) =>
  new Promise<boolean>((resolve) => {
    const server = net.createServer().once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })

let nextPorts = 10_100 + portsOfWorld * Math.floor(Math.random() * 900)

/** The first of 20 ports that were free. */
const freePorts = async (): Promise<number> => {
  for (;;) {
    const base = nextPorts
    nextPorts = nextPorts > 31_000 ? 10_100 : nextPorts + portsOfWorld
    const all = await Promise.all(Array.from({ length: portsOfWorld }, (_, n) => isFree(base + n)))
    if (all.every((free) => free)) return base
  }
}

const words: Record<BankEvent["event"], (event: BankEvent) => string> = {
  arrived: ({ request }) => `the bank gets request ${request}`,
  booked: () => "the bank books the payment",
  repeated: () => "the bank knows the key, and books nothing",
  answered: ({ status }) => `the bank answers ${status}`,
  held: () => "the bank takes its time",
  lost: () => "the connection breaks, without an answer",
  webhook: () => "the bank sends a webhook",
  read: () => "the bank is asked for the payment"
}

export class World {
  readonly notes: Array<Note> = []
  readonly events: Array<BankEvent> = []
  readonly bankLink = new Proxy({ host: "127.0.0.1", port: 0 })
  readonly database: Database
  private bank: Daemon | null = null
  private contestant: Processes | null = null
  private readonly options: WorldOptions
  private readonly directory: string
  private readonly clientLink = new Proxy({ path: "" })
  private hours = 0

  private constructor(options: WorldOptions) {
    const { hasClocks, hasStandby, name, stage } = options
    this.options = options
    this.directory = path.join(stage.directory, name)
    fs.mkdirSync(this.directory, { recursive: true, mode: 0o700 })
    for (const clock of ["database", "workers"] as const) this.setClock(clock)
    const programs = hasClocks
      ? programsWithClock(stage.postgresPrograms, path.join(this.directory, "programs"), this.clockOf("database"))
      : stage.postgresPrograms
    const note = (what: string) => this.note(what)
    this.database = new Database({ directory: this.directory, template: stage.template, programs, hasStandby, note })
  }

  /** Everything but the workers runs. */
  static async open(options: WorldOptions): Promise<World> {
    const world = new World(options)
    try {
      await world.begin()
    } catch (error) {
      await world.close()
      throw error
    }
    return world
  }

  /** The contestant's workers, and its server. */
  get processes(): Processes {
    return this.contestant!
  }

  note(what: string, id?: string): void {
    this.notes.push({ at: Math.round(monotonic()), what, ...id !== undefined && { id } })
  }

  order(order: BankOrder): void {
    this.bank?.tell(JSON.stringify(order))
  }

  /** Waits until so many of the payments have met this event so many times. False if that takes too long. */
  async met(event: BankEvent["event"], ids: ReadonlySet<string>, seconds: number, times = 1): Promise<boolean> {
    const count = () => {
      const own = this.events.filter((one) => one.event === event && ids.has(one.id))
      return [...Map.groupBy(own, ({ id }) => id).values()].filter((all) => all.length >= times).length
    }
    return await poll(seconds, async () => when(count() >= ids.size), 20) === true
  }

  /** The same. A scene cannot be played without it. */
  async expect(event: BankEvent["event"], ids: ReadonlySet<string>): Promise<void> {
    if (!await this.met(event, ids, patience)) throw new Error(`some payments were not ${event}`)
  }

  /** The same payments may be accepted again. Resolves to the ids that were accepted. */
  async accept(payments: ReadonlyArray<Payment>): Promise<ReadonlySet<string>> {
    const lines = payments.map(({ amount, currency, id, payee }) => JSON.stringify({ id, amount, currency, payee }))
    const ids = new Set(await this.processes.run("accept", lines))
    for (const id of ids) this.note("accepted", id)
    return ids
  }

  async outcomes(): Promise<ReadonlyMap<string, Outcome>> {
    const lines = await this.processes.outcomes()
    return new Map(lines.map((line) => JSON.parse(line) as Outcome).map((outcome) => [outcome.id, outcome]))
  }

  /** Waits until the contestant tells that these are paid. */
  async expectPaid(ids: ReadonlySet<string>): Promise<void> {
    const arePaid = async () => {
      const outcomes = await this.outcomes()
      return when([...ids].every((id) => outcomes.get(id)?.told === "paid"))
    }
    if (await poll(patience, arePaid) === null) throw new Error("some payments were not told as paid")
  }

  /** The clocks of the database and of the workers go ahead. */
  async pass(hours: number): Promise<void> {
    this.hours += hours
    this.note(`${hours} hours pass`)
    for (const clock of ["database", "workers"] as const) this.setClock(clock)
    await sleep(noticing)
  }

  /**
   * Hours pass in which workers have nothing to do: they end gracefully, and start again. A worker that has work under way when the
   * clocks go ahead would take its leases for ended.
   */
  async passIdle(hours: number): Promise<void> {
    const startAll = await this.processes.endAll(grace)
    await this.pass(hours)
    await startAll()
  }

  /** The clock of the database alone goes ahead, or back. */
  jump(hours: number): void {
    this.note(`the clock of the database jumps by ${hours} hours`)
    this.setClock("database", hours)
  }

  /** The primary is lost, and the standby takes its place. */
  async failOver(): Promise<void> {
    await this.database.promoteStandby()
    for (const link of [this.clientLink, ...this.processes.links]) {
      link.target = this.database.target
      link.strike("reset")
    }
  }

  async close(): Promise<void> {
    await this.contestant?.close()
    await this.bank?.kill()
    for (const link of [this.bankLink, this.clientLink]) link.close()
    await this.database.close()
  }

  private clockOf(of: "database" | "workers"): string {
    return path.join(this.directory, `clock-${of}`)
  }

  private setClock(of: "database" | "workers", ahead = 0): void {
    setClock(this.clockOf(of), (this.hours + ahead) * 3600)
  }

  private hear(line: string): void {
    if (!line.startsWith("{")) {
      this.bankLink.target = { host: "127.0.0.1", port: Number(line) }
      return
    }
    const event = JSON.parse(line) as BankEvent
    this.events.push(event)
    this.notes.push({ at: event.at, what: words[event.event](event), ...event.id !== "" && { id: event.id } })
  }

  private async startBank(webhookPorts: ReadonlyArray<number>): Promise<number> {
    const config: BankConfig = { keys: this.options.keys, token, webhookPorts }
    this.bank = new Daemon({
      name: "bank",
      logs: this.directory,
      command: [process.execPath, path.join(root, "bench/faults/bank.ts")],
      env: { [configVariable]: JSON.stringify(config) },
      onLine: (line) => this.hear(line)
    })
    this.bank.start()
    const isListening = async () => when((this.bankLink.target as { readonly port: number }).port !== 0)
    if (await poll(patience, isListening, 20) === null) throw new Error("the bank does not listen")
    return this.bankLink.listen()
  }

  private async begin(): Promise<void> {
    const { contestant, hasClocks, keys, name, stage, variant } = this.options
    const ports = await freePorts()
    const state = path.join(this.directory, "state")
    fs.mkdirSync(state, { mode: 0o700 })
    await this.database.start()
    const { target } = this.database
    const bankPort = await this.startBank([ports + 10, ports + 11])
    this.clientLink.target = target
    const environment = {
      ...hasClocks && clockEnvironment(this.clockOf("workers")),
      NODE_COMPILE_CACHE: path.join(root, "node_modules/.cache/node-compile"),
      LOG_LEVEL: "Warn",
      DATABASE_URL: urlAt(await this.clientLink.listen()),
      STATE_DIR: state,
      PORT_BASE: String(ports),
      BANK_URL: `http://127.0.0.1:${bankPort}`,
      BANK_TOKEN: token,
      VARIANT: variant,
      BANK_KEYS: keys,
      WORKER: "0",
      CODE_VERSION: "1",
      LEASE_SECONDS: String(leaseSeconds),
      CONCURRENCY: String(concurrency),
      WEBHOOK_PORT: String(ports + 10)
    }
    const note = (what: string) => this.note(what)
    const program = stage.programOf(contestant)
    this.contestant = new Processes({ name, directory: this.directory, program, environment, target, note })
    if (contestant.needsServer) await this.processes.startServer()
    await this.processes.run("prepare")
  }
}

/** What all worlds of a run begin with. */
export const prepareStage = async (directory: string, programOf: Stage["programOf"]): Promise<Stage> => {
  const template = path.join(directory, "template")
  const installation = await Effect.runPromise(
    Effect.flatMap(openCluster(template), (cluster) => prepareCluster(cluster, undefined))
  )
  return { directory, template, postgresPrograms: path.dirname(installation.binaries.postgres), programOf }
}
