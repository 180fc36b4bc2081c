/** The world of one scene: a contestant's workers, its database, the bank, and the networks between them, each in processes of its own. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Scope } from "effect"
import { Layer } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { openCluster, prepareCluster } from "../../src/node/embedded/Cluster.ts"
import { Proxy } from "../../test/fixtures/processes/Proxy.ts"
import { monotonic, poll, sleep, slowness, when } from "../../test/long/faults/kit/Clock.ts"
import { Daemon, signal } from "../../test/long/faults/kit/Daemon.ts"
import { clockEnvironment, programsWithClock, setClock } from "../../test/long/faults/kit/JumpingClock.ts"
import { makePostgres, Platform, type Postgres } from "../../test/long/faults/kit/Postgres.ts"
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

/** Seconds that a command, or the start of a process, may take on a busy machine. */
const patience = 90

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

/** A process and those that it started, such as a server behind a wrapper. */
const withChildren = (pid: number): ReadonlyArray<number> => {
  try {
    const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" })
    return [pid, ...children.split("\n").filter((line) => line.trim() !== "").map(Number)]
  } catch {
    return [pid]
  }
}

interface WorkerProcess {
  readonly daemon: Daemon
  readonly link: Proxy
  isExpectedToEnd: boolean
}

export class World {
  readonly notes: Array<Note> = []
  readonly events: Array<BankEvent> = []
  readonly bankLink = new Proxy({ host: "127.0.0.1", port: 0 })
  private bank: Daemon | null = null
  private readonly options: WorldOptions
  private readonly directory: string
  private readonly scope = Effect.runSync(Scope.make())
  private readonly clientLink = new Proxy({ path: "" })
  private readonly workers = new Map<number, WorkerProcess>()
  private server: Daemon | null = null
  private primary: Postgres | null = null
  private standby: Postgres | null = null
  private environment: NodeJS.ProcessEnv = {}
  private isClosing = false

  private constructor(options: WorldOptions) {
    this.options = options
    this.directory = path.join(options.stage.directory, options.name)
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

  note(what: string, id?: string): void {
    this.notes.push({ at: Math.round(monotonic()), what, ...id !== undefined && { id } })
  }

  order(order: BankOrder): void {
    this.bank?.tell(JSON.stringify(order))
  }

  /** Waits until so many of the payments have met this event. False if that takes too long. */
  async met(event: BankEvent["event"], ids: ReadonlySet<string>, seconds = 8): Promise<boolean> {
    const count = () =>
      new Set(this.events.flatMap((one) => one.event === event && ids.has(one.id) ? [one.id] : [])).size
    const all = await poll(seconds, async () => when(count() >= ids.size), 20)
    if (all === null) this.note(`only ${count()} of ${ids.size} payments were ${event}`)
    return all === true
  }

  /** The same payments may be accepted again. Resolves to the ids that were accepted. */
  async accept(payments: ReadonlyArray<Payment>): Promise<ReadonlySet<string>> {
    const lines = payments.map(({ amount, currency, id, payee }) => JSON.stringify({ id, amount, currency, payee }))
    const ids = new Set(await this.repeated("accept", lines))
    for (const id of ids) this.note("accepted", id)
    return ids
  }

  async outcomes(): Promise<ReadonlyMap<string, Outcome>> {
    const lines = await this.repeated("outcomes")
    return new Map(lines.map((line) => JSON.parse(line) as Outcome).map((outcome) => [outcome.id, outcome]))
  }

  /** Starts a worker, and waits until it takes work. */
  async start(worker: number, codeVersion = 1): Promise<void> {
    const known = this.workers.get(worker)
    const link = known?.link ?? new Proxy(this.target)
    if (known === undefined) await link.listen()
    let isReady = false
    const process: WorkerProcess = {
      link,
      isExpectedToEnd: false,
      daemon: new Daemon({
        name: `worker-${worker}`,
        logs: this.directory,
        command: this.commandLine("work"),
        env: {
          ...this.environment,
          DATABASE_URL: urlAt(link.port),
          WORKER: String(worker),
          WEBHOOK_PORT: String(Number(this.environment["PORT_BASE"]) + 10 + worker),
          CODE_VERSION: String(codeVersion)
        },
        onLine: (line) => {
          if (line.trim() === "ready") isReady = true
        },
        onEnd: ({ code, signal }) => {
          if (process.isExpectedToEnd || this.isClosing || this.workers.get(worker) !== process) return
          this.note(`worker ${worker} ended by itself (code ${code}, signal ${signal}), and is started again`)
          // As a supervisor does.
          setTimeout(() => this.isClosing || process.daemon.start(), 500)
        }
      })
    }
    this.workers.set(worker, process)
    process.daemon.start()
    if (await poll(patience, async () => when(isReady), 20) === null) {
      throw new Error(`worker ${worker} of ${this.options.name} was not ready: see ${this.directory}`)
    }
    this.note(`worker ${worker} works${codeVersion === 1 ? "" : `, with version ${codeVersion} of its code`}`)
  }

  linkOf(worker: number): Proxy {
    return this.workers.get(worker)!.link
  }

  /** Whether the contestant's own server keeps its state, and not the database. */
  get hasServer(): boolean {
    return this.server !== null
  }

  /** Stops the contestant's own server until the returned function is called. */
  freezeServer(): () => void {
    const pids = this.server?.pids.flatMap(withChildren) ?? []
    signal(pids, "SIGSTOP")
    return () => signal(pids, "SIGCONT")
  }

  async kill(worker: number): Promise<void> {
    const { daemon } = this.workers.get(worker)!
    this.workers.get(worker)!.isExpectedToEnd = true
    this.note(`worker ${worker} gets kill -9`)
    await daemon.kill()
  }

  /** SIGTERM, and SIGKILL after these milliseconds. */
  async end(worker: number, milliseconds: number): Promise<void> {
    const process = this.workers.get(worker)!
    process.isExpectedToEnd = true
    this.note(`worker ${worker} gets SIGTERM`)
    process.daemon.signal("SIGTERM")
    const ended = await Promise.race([process.daemon.ended.then(() => true), sleep(milliseconds).then(() => false)])
    if (!ended) await this.kill(worker)
  }

  freeze(worker: number): void {
    this.note(`worker ${worker} is frozen`)
    this.workers.get(worker)!.daemon.signal("SIGSTOP")
  }

  thaw(worker: number): void {
    this.note(`worker ${worker} goes on`)
    this.workers.get(worker)!.daemon.signal("SIGCONT")
  }

  private hours = 0

  /** The clocks of the database and of the workers go ahead. */
  pass(hours: number): void {
    this.hours += hours
    this.note(`${hours} hours pass`)
    for (const clock of ["database", "workers"] as const) this.setClock(clock)
  }

  /** The clock of the database alone goes ahead, or back. */
  jump(hours: number): void {
    this.note(`the clock of the database jumps by ${hours} hours`)
    this.setClock("database", hours)
  }

  /** SIGKILL to the database. `meanwhile` runs while it is down. */
  async restartDatabase(meanwhile: () => Promise<void>): Promise<void> {
    this.note("the database gets kill -9")
    await Effect.runPromise(this.primary!.kill)
    await meanwhile()
    await Effect.runPromise(this.primary!.crash)
    this.note("the database answers again")
  }

  /** From now on the standby gets no commit. It has those until now. */
  async detachStandby(): Promise<void> {
    const position = await this.query<{ lsn: string }>(this.primary!, "SELECT pg_current_wal_lsn()::text AS lsn")
    const has = async () => {
      const [row] = await this.query<{ has: boolean }>(
        this.standby!,
        `SELECT pg_last_wal_replay_lsn() >= '${position[0]!.lsn}' AS has`
      )
      return when(row?.has === true)
    }
    if (await poll(patience, has) === null) throw new Error("the standby does not follow")
    await this.query(this.standby!, "ALTER SYSTEM SET primary_conninfo = ''")
    await this.query(this.standby!, "SELECT pg_reload_conf()")
    const isAlone = async () =>
      when((await this.query(this.primary!, "SELECT pid FROM pg_stat_replication")).length === 0)
    if (await poll(patience, isAlone) === null) throw new Error("the standby still follows")
    this.note("the standby gets no commits from now on")
  }

  /** The primary is lost, and the standby takes its place. */
  async failOver(): Promise<void> {
    this.note("the primary is lost")
    await Effect.runPromise(this.primary!.kill)
    const standby = this.standby!
    await this.query(standby, "SELECT pg_promote()")
    this.primary = standby
    for (const link of [this.clientLink, ...[...this.workers.values()].map(({ link }) => link)]) {
      link.target = this.target
      link.strike("reset")
    }
    this.note("the standby is the primary")
  }

  async close(): Promise<void> {
    this.isClosing = true
    await Promise.all([...this.workers.values()].map(({ daemon }) => daemon.kill()))
    if (this.server !== null) {
      const pids = this.server.pids.flatMap(withChildren)
      await this.server.kill()
      signal(pids, "SIGKILL")
    }
    await this.bank?.kill()
    for (const link of [this.bankLink, this.clientLink, ...[...this.workers.values()].map(({ link }) => link)]) {
      link.close()
    }
    await Effect.runPromise(Scope.close(this.scope, Exit.void))
  }

  private get target() {
    return this.primary!.target
  }

  private clockOf(of: "database" | "workers"): string {
    return path.join(this.directory, `clock-${of}`)
  }

  private setClock(of: "database" | "workers", ahead = 0): void {
    setClock(this.clockOf(of), (this.hours + ahead) * 3600)
  }

  private commandLine(command: string): ReadonlyArray<string> {
    return [process.execPath, this.options.stage.programOf(this.options.contestant), command]
  }

  private hear(line: string): void {
    if (!line.startsWith("{")) {
      this.bankLink.target = { host: "127.0.0.1", port: Number(line) }
      return
    }
    const event = JSON.parse(line) as BankEvent
    this.events.push(event)
    const words: Record<BankEvent["event"], string> = {
      arrived: `the bank gets request ${event.request}`,
      booked: "the bank books the payment",
      repeated: "the bank knows the key, and books nothing",
      answered: `the bank answers ${event.status}`,
      held: "the bank takes its time",
      lost: "the connection breaks, without an answer",
      webhook: "the bank sends a webhook",
      read: "the bank is asked for the payment"
    }
    this.notes.push({ at: event.at, what: words[event.event], ...event.id !== "" && { id: event.id } })
  }

  private async begin(): Promise<void> {
    const { contestant, hasClocks, hasStandby, keys, stage, variant } = this.options
    const ports = await freePorts()
    const state = path.join(this.directory, "state")
    fs.mkdirSync(state, { recursive: true, mode: 0o700 })
    this.setClock("database")
    this.setClock("workers")
    const programs = hasClocks
      ? programsWithClock(stage.postgresPrograms, path.join(this.directory, "programs"), this.clockOf("database"))
      : stage.postgresPrograms
    // A standby has its settings in a file, so that a statement can change them.
    const server = (name: string, standbySettings: Readonly<Record<string, string>> | null) =>
      Effect.promise(async () => {
        const data = path.join(this.directory, name)
        const pgdata = path.join(data, "pgdata")
        fs.cpSync(stage.template, data, { recursive: true })
        for (const one of [data, pgdata]) fs.chmodSync(one, 0o700)
        if (standbySettings === null) return data
        fs.writeFileSync(path.join(pgdata, "standby.signal"), "")
        const lines = Object.entries(standbySettings).map(([name, value]) => `${name} = '${value}'\n`)
        fs.appendFileSync(path.join(pgdata, "postgresql.auto.conf"), lines.join(""))
        return data
      }).pipe(
        Effect.flatMap((data) =>
          makePostgres(data, { programs, settings: { shared_buffers: "32MB" }, isStandby: standbySettings !== null })
        ),
        Effect.provideService(Scope.Scope, this.scope),
        Effect.provide(Platform),
        Effect.runPromise
      )
    this.primary = await server("primary", null)
    if (hasStandby) {
      const { connection } = this.primary
      this.standby = await server("standby", {
        primary_conninfo: `host=${connection.host} port=${connection.port} user=${connection.username}`,
        wal_retrieve_retry_interval: "100ms"
      })
    }
    const bankConfig: BankConfig = { keys, token, webhookPorts: [ports + 10, ports + 11] }
    this.bank = new Daemon({
      name: "bank",
      logs: this.directory,
      command: [process.execPath, path.join(root, "bench/faults/bank.ts")],
      env: { [configVariable]: JSON.stringify(bankConfig) },
      onLine: (line) => this.hear(line)
    })
    this.bank.start()
    const isListening = async () => when((this.bankLink.target as { readonly port: number }).port !== 0)
    if (await poll(patience, isListening, 20) === null) throw new Error("the bank does not listen")
    const bankPort = await this.bankLink.listen()
    this.clientLink.target = this.target
    const clientPort = await this.clientLink.listen()
    this.environment = {
      ...hasClocks && clockEnvironment(this.clockOf("workers")),
      NODE_COMPILE_CACHE: path.join(root, "node_modules/.cache/node-compile"),
      LOG_LEVEL: "Warn",
      DATABASE_URL: urlAt(clientPort),
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
    if (contestant.needsServer) await this.startServer()
    await this.command("prepare")
  }

  private async startServer(): Promise<void> {
    let isReady = false
    this.server = new Daemon({
      name: "server",
      logs: this.directory,
      command: this.commandLine("server"),
      env: this.environment,
      onLine: (line) => {
        if (line.trim() === "ready") isReady = true
      }
    })
    this.server.start()
    if (await poll(patience, async () => when(isReady), 50) === null) throw new Error("the server was not ready")
  }

  /** Runs a command of the contestant with these lines on its standard input, and resolves to the lines of its output. */
  private command(command: string, lines: ReadonlyArray<string> = []): Promise<ReadonlyArray<string>> {
    const [program, ...args] = this.commandLine(command)
    const log = fs.openSync(path.join(this.directory, `${command}.log`), "a")
    const child = spawn(program!, args, {
      env: { ...process.env, ...this.environment },
      stdio: ["pipe", "pipe", log],
      timeout: patience * 1000,
      killSignal: "SIGKILL"
    })
    fs.closeSync(log)
    child.stdin!.on("error", () => {}).end(lines.map((line) => `${line}\n`).join(""))
    let output = ""
    child.stdout!.setEncoding("utf8").on("data", (text: string) => output += text)
    return new Promise((resolve, reject) => {
      child.once("error", reject)
      child.once("close", (code) =>
        code === 0
          ? resolve(output.split("\n").filter((line) => line.trim() !== ""))
          : reject(new Error(`${command} of ${this.options.name} ended with ${code}: see ${this.directory}`)))
    })
  }

  /** The same, and again after a failure: the database may be busy or down. */
  private async repeated(command: string, lines: ReadonlyArray<string> = []): Promise<ReadonlyArray<string>> {
    for (let failures = 0;;) {
      try {
        return await this.command(command, lines)
      } catch (error) {
        if (++failures === 10) throw error
        await sleep(500)
      }
    }
  }

  private query<Row extends object>({ connection }: Postgres, text: string): Promise<ReadonlyArray<Row>> {
    return SqlClient.SqlClient.use((sql) => sql.unsafe<Row>(text).unprepared).pipe(
      Effect.provide(Layer.fresh(PgClient.layer({ ...connection, maxConnections: 1 }))),
      Effect.scoped,
      Effect.runPromise
    )
  }
}

const urlAt = (port: number) => `postgres://postgres@127.0.0.1:${port}/chaos`

/** What all worlds of a run begin with. */
export const prepareStage = async (directory: string, programOf: Stage["programOf"]): Promise<Stage> => {
  const template = path.join(directory, "template")
  const installation = await Effect.runPromise(
    Effect.flatMap(openCluster(template), (cluster) => prepareCluster(cluster, undefined))
  )
  return { directory, template, postgresPrograms: path.dirname(installation.binaries.postgres), programOf }
}
