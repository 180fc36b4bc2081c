/** The processes of the gateway on the cluster: two servers, two payment endpoints, two workers, and the sandbox. */
import { fileURLToPath } from "node:url"
import { Proxy } from "../../../fixtures/processes/Proxy.ts"
import { expectSoon, when } from "../kit/Clock.ts"
import { Daemon } from "../kit/Daemon.ts"
import { SentKeys } from "../kit/SentKeys.ts"
import type { Cluster } from "./Cluster.ts"
import { run } from "./Commands.ts"
import type { PatroniNode } from "./PatroniNode.ts"
import { addresses, ports, type Protection, providerName } from "./Plan.ts"

const main = fileURLToPath(new URL("../../../../src/main.ts", import.meta.url))
const payments = fileURLToPath(new URL("./payments.ts", import.meta.url))

type Role = "owner" | "writer" | "reader"

const urlOf = (role: Role, port: number = ports.primary) => `postgres://gateway_${role}@127.0.0.1:${port}/gateway`

export interface GatewayOptions {
  readonly logs: string
  /** File of the sandbox's record. */
  readonly record: string
  readonly without: ReadonlyArray<Protection>
  /** Servers in recovery answer reads: a control. */
  readonly readsInRecovery: boolean
}

/** The settings of every process of the gateway. Nothing else says how they use the cluster. */
const settingsFor = (without: ReadonlyArray<Protection>) => {
  const has = (protection: Protection) => !without.includes(protection)
  const shared = {
    NODE_OPTIONS: "--conditions=gateway-source",
    ...has("synchronous") && { DATABASE_SYNCHRONOUS: "required" },
    ...has("witness") && { WITNESS: `etcd://${addresses.dcs}:2379/financial-agents-gateway` }
  }
  // Only confirmed reads may run on a standby: the gateway refuses the setting otherwise.
  const reads = has("standby-reads") && has("synchronous") ? { DATABASE_READ_URL: urlOf("reader", ports.standby) } : {}
  return {
    owner: { NODE_OPTIONS: shared.NODE_OPTIONS, DATABASE_URL: urlOf("owner") },
    writer: { ...shared, DATABASE_URL: urlOf("writer") },
    reader: { ...shared, ...reads, DATABASE_URL: urlOf("reader") },
    endpoint: {
      ...shared,
      DATABASE_URL: urlOf("writer"),
      WRITER_DATABASE_URL: urlOf("writer"),
      READER_DATABASE_URL: urlOf("reader")
    }
  }
}

/**
 * A function of the same name, which the reader finds first. So the statement that reads does not notice that the server is in
 * recovery. The gateway itself has no setting for that.
 */
const allowReadsInRecovery = `
CREATE SCHEMA reads_in_recovery;
CREATE FUNCTION reads_in_recovery.pg_current_wal_insert_lsn() RETURNS pg_lsn LANGUAGE sql AS $$
  SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END
$$;
GRANT USAGE ON SCHEMA reads_in_recovery TO gateway_reader;
ALTER ROLE gateway_reader IN DATABASE gateway SET search_path = reads_in_recovery, pg_catalog, public;
`

const answers = (url: string) => async () =>
  when((await fetch(url, { signal: AbortSignal.timeout(1000) })).status < 400)

export class Gateways {
  /** How often the workers sent each operation to the sandbox, received or not. */
  readonly sent = new SentKeys()
  private readonly sandboxLink = new Proxy({ host: "127.0.0.1", port: ports.sandbox }, this.sent.watch)
  private readonly options: GatewayOptions
  private readonly settings: ReturnType<typeof settingsFor>
  private readonly daemons: Array<Daemon> = []
  private readonly workers: Array<Daemon> = []

  constructor(options: GatewayOptions) {
    this.options = options
    this.settings = settingsFor(options.without)
  }

  /** Creates roles and schema by the commands of the gateway, and starts its processes. */
  async start(cluster: Cluster, primary: PatroniNode): Promise<void> {
    await primary.script(await this.command("owner", "roles", "create"))
    await expectSoon(20, "HAProxy finds the primary", () => this.command("owner", "migrate"))
    await primary.script(await this.command("owner", "roles", "grant"), { role: "gateway_owner", database: "gateway" })
    if (this.options.readsInRecovery) await primary.script(allowReadsInRecovery, { database: "gateway" })
    const { endpoint, reader, writer } = this.settings
    this.daemon("sandbox", writer, [main, "sandbox", "--record", this.options.record])
    await expectSoon(20, "the sandbox answers", () => fetch(`http://127.0.0.1:${ports.sandbox}/`).then(() => true))
    for (const [index, port] of ports.gateways.entries()) {
      this.daemon(`serve${index + 1}`, { ...reader, PORT: String(port) }, [main, "serve", "--no-migrate"])
    }
    for (const [index, port] of ports.payments.entries()) {
      this.daemon(`payments${index + 1}`, { ...endpoint, PORT: String(port) }, [payments])
    }
    const bank = `${providerName}=http://127.0.0.1:${await this.sandboxLink.listen()}`
    for (const number of [1, 2]) {
      const command = [main, "work", "--sandbox", bank]
      this.workers.push(this.daemon(`work${number}`, { ...writer, WORKER_ID: `worker-${number}` }, command))
    }
    for (const port of [...ports.gateways, ...ports.payments]) {
      await expectSoon(30, `the process at ${port} is ready`, answers(`http://127.0.0.1:${port}/readyz`))
    }
    for (const worker of this.workers) {
      await expectSoon(
        30,
        `${worker.name} works`,
        async () => when(worker.lines.some((line) => line.includes(`"Working"`)))
      )
    }
    await cluster.becomeWhole(30)
  }

  /**
   * Ends the first minute with the witness, in which a failover releases nothing: it lets the claims of workers without a witness come
   * to their end, and this ledger never had any.
   */
  async settleWitness(primary: PatroniNode): Promise<void> {
    const isSo = (condition: string) => async () =>
      when((await primary.query(`SELECT FROM ledger_home WHERE ${condition}`, "gateway")).length > 0)
    await expectSoon(30, "a worker compares the ledger with its witness", isSo("witnessed_since IS NOT NULL"))
    await primary.script("UPDATE ledger_home SET witnessed_since = now() - interval '1 hour'", { database: "gateway" })
    await expectSoon(30, "the witness counts", isSo("is_witness_settled"))
  }

  /** SIGSTOP to the workers, so that operations are accepted and not claimed. */
  pauseWorkers(): void {
    for (const worker of this.workers) worker.signal("SIGSTOP")
  }

  resumeWorkers(): void {
    for (const worker of this.workers) worker.signal("SIGCONT")
  }

  /** What an operator does after a failover that lost nothing, as soon as HAProxy has found the new primary. */
  async releaseAll(): Promise<void> {
    await expectSoon(
      30,
      "held operations are released",
      () => this.command("writer", "operations", "release", "--all", "--reason", "none lost")
    )
  }

  /** The names of processes that ended by themselves, and are started again. */
  restartDead(): ReadonlyArray<string> {
    const dead = this.daemons.filter(({ isRunning }) => !isRunning)
    for (const daemon of dead) daemon.start()
    return dead.map(({ name }) => name)
  }

  private command(role: Role, ...args: ReadonlyArray<string>): Promise<string> {
    return run([process.execPath, main, ...args], { env: this.settings[role] })
  }

  private daemon(name: string, env: NodeJS.ProcessEnv, args: ReadonlyArray<string>): Daemon {
    const daemon = new Daemon({ name, env, logs: this.options.logs, command: [process.execPath, ...args] })
    this.daemons.push(daemon)
    daemon.start()
    return daemon
  }
}
