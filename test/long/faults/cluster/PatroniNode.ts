/** A node of the cluster: Patroni and its PostgreSQL, in a network of their own. */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { Daemon, signal } from "../kit/Daemon.ts"
import { programsWithClock, setClock } from "../kit/JumpingClock.ts"
import { asPostgres, giveToPostgres, run, type RunOptions, within } from "./Commands.ts"
import { addresses, type NodeName, patroniTimes } from "./Plan.ts"
import { postgresDirectory } from "./Requirements.ts"

// Patroni's clock is not that of the library: Python's sleep fails under it.
const pythonClock = fileURLToPath(new URL("./clock/sitecustomize.py", import.meta.url))

export interface NodeOptions {
  readonly name: NodeName
  readonly directory: string
  readonly logs: string
  readonly etcd3: boolean
  readonly isAsynchronous: boolean
}

/** Patroni's configuration. JSON is YAML. */
const configuration = ({ directory, etcd3, isAsynchronous, name }: NodeOptions) => ({
  scope: "chaos",
  name,
  restapi: { listen: `${addresses[name]}:8008`, connect_address: `${addresses[name]}:8008` },
  [etcd3 ? "etcd3" : "etcd"]: { host: `${addresses.dcs}:2379` },
  bootstrap: {
    dcs: {
      ...patroniTimes,
      synchronous_mode: !isAsynchronous,
      synchronous_mode_strict: !isAsynchronous,
      failsafe_mode: true,
      postgresql: {
        use_pg_rewind: true,
        parameters: {
          max_connections: 100,
          shared_buffers: "32MB",
          wal_log_hints: "on",
          synchronous_commit: "on",
          wal_sender_timeout: "5s",
          wal_receiver_timeout: "5s",
          hot_standby_feedback: "on",
          tcp_keepalives_idle: 5
        }
      }
    },
    initdb: [{ auth: "trust" }, { encoding: "UTF8" }, { locale: "C.UTF-8" }, "data-checksums"],
    pg_hba: [
      "local all all trust",
      "host all all 10.77.0.0/24 trust",
      "host replication all 10.77.0.0/24 trust"
    ]
  },
  postgresql: {
    listen: "0.0.0.0:5432",
    connect_address: `${addresses[name]}:5432`,
    bin_dir: programsWithClock(postgresDirectory, path.join(directory, "bin"), path.join(directory, "clock")),
    data_dir: path.join(directory, "data"),
    pgpass: path.join(directory, "pgpass"),
    remove_data_directory_on_rewind_failure: true,
    remove_data_directory_on_diverged_timelines: true,
    parameters: { unix_socket_directories: directory, logging_collector: "off", log_line_prefix: "%m [%p] %a " },
    authentication: {
      superuser: { username: "postgres" },
      replication: { username: "postgres" },
      rewind: { username: "postgres" }
    }
  },
  watchdog: { mode: "off" }
})

export class PatroniNode {
  readonly name: NodeName
  /** Directory of the unix socket, which no network fault touches. */
  readonly directory: string
  private readonly patroni: Daemon
  private readonly clock: string

  constructor(options: NodeOptions) {
    this.name = options.name
    this.directory = options.directory
    this.clock = path.join(options.directory, "clock")
    fs.mkdirSync(options.directory, { mode: 0o700 })
    giveToPostgres(options.directory)
    const file = path.join(options.directory, "patroni.yml")
    fs.writeFileSync(file, JSON.stringify(configuration(options)))
    this.setClock(0)
    // The user postgres may not see the checkout.
    fs.copyFileSync(pythonClock, path.join(options.directory, path.basename(pythonClock)))
    this.patroni = new Daemon({
      name: options.name,
      logs: options.logs,
      command: within(options.name, asPostgres(["patroni", file])),
      env: { HOME: options.directory, PYTHONUNBUFFERED: "1", PYTHONPATH: options.directory, CLUSTER_CLOCK: this.clock }
    })
  }

  get isRunning(): boolean {
    return this.patroni.isRunning
  }

  start(): void {
    this.patroni.start()
  }

  /** SIGKILL to Patroni and PostgreSQL. */
  async kill(): Promise<void> {
    const servers = await this.serverPids()
    const patroni = this.patroni.kill()
    signal(servers, "SIGKILL")
    await patroni
  }

  /** Kills Patroni alone. The next one takes over the running server. */
  async restartPatroni(): Promise<void> {
    await this.patroni.kill()
    this.start()
  }

  async killPostmaster(): Promise<void> {
    signal((await this.serverPids()).slice(0, 1), "SIGKILL")
  }

  async freeze(): Promise<void> {
    signal([...this.patroni.pids, ...await this.serverPids()], "SIGSTOP")
  }

  async thaw(): Promise<void> {
    signal([...await this.serverPids(), ...this.patroni.pids], "SIGCONT")
  }

  /** From now on the clock of the node differs by this many seconds. It needs `clockLibrary`. */
  setClock(seconds: number): void {
    setClock(this.clock, seconds)
  }

  /** The rows of a SELECT as superuser, of this very server. Rejects after three seconds. */
  async query<Row extends object>(select: string, database = "postgres"): Promise<ReadonlyArray<Row>> {
    const rows = await this.psql(["-c", `SELECT coalesce(json_agg(one), '[]') FROM (${select}) AS one`], {
      database,
      env: { PGCONNECT_TIMEOUT: "2", PGOPTIONS: "-c statement_timeout=2000" },
      timeout: 3000
    })
    return JSON.parse(rows) as ReadonlyArray<Row>
  }

  /** A script, as this role. */
  script(text: string, { database = "postgres", role = "postgres" } = {}): Promise<string> {
    return this.psql(["-v", "ON_ERROR_STOP=1", "-f", "-"], { database, role, input: text })
  }

  private psql(
    args: ReadonlyArray<string>,
    { database, role = "postgres", ...options }: RunOptions & { readonly database: string; readonly role?: string }
  ): Promise<string> {
    const psql = [path.join(postgresDirectory, "psql"), "-XAtq", "-h", this.directory, "-U", role, "-d", database]
    return run([...psql, ...args], options)
  }

  /** The postmaster first. Empty if the server does not run. */
  private async serverPids(): Promise<ReadonlyArray<number>> {
    const file = path.join(this.directory, "data", "postmaster.pid")
    if (!fs.existsSync(file)) return []
    const postmaster = Number(fs.readFileSync(file, "utf8").split("\n")[0])
    if (!fs.existsSync(`/proc/${postmaster}`)) return []
    const children = await run(["ps", "-o", "pid=", "--ppid", String(postmaster)]).catch(() => "")
    return [postmaster, ...children.split("\n").filter((line) => line.trim() !== "").map(Number)]
  }
}
