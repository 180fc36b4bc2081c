/** The cluster: etcd, three nodes with Patroni, and HAProxy in front of them. */
import * as fs from "node:fs"
import * as path from "node:path"
import { expectSoon, poll, when } from "../kit/Clock.ts"
import { Daemon } from "../kit/Daemon.ts"
import { within } from "./Commands.ts"
import { Network } from "./Network.ts"
import { PatroniNode } from "./PatroniNode.ts"
import { addresses, type NodeName, nodeNames, ports } from "./Plan.ts"

const etcdUrl = `http://${addresses.dcs}:2379`

/** Answers of the interfaces v2 and v3 of etcd. */
interface Value {
  readonly node?: { readonly value?: string }
  readonly kvs?: ReadonlyArray<{ readonly value: string }>
}

const fetchJson = async <A>(url: string, init: RequestInit = {}): Promise<A> => {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(2000) })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return await response.json() as A
}

const haproxyConfiguration = (): string => {
  const servers = nodeNames.map((name) => `  server ${name} ${addresses[name]}:5432 check port 8008`)
  const listen = (role: "primary" | "replica", port: number) => [
    `listen ${role}`,
    `  bind 127.0.0.1:${port}`,
    `  option httpchk OPTIONS /${role}${role === "replica" ? "?lag=16MB" : ""}`,
    "  http-check expect status 200",
    ...servers
  ]
  return [
    "global",
    "  maxconn 500",
    "defaults",
    "  mode tcp",
    "  timeout connect 2s",
    "  timeout client 30m",
    "  timeout server 30m",
    "  timeout check 1s",
    "  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions",
    ...listen("primary", ports.primary),
    ...listen("replica", ports.standby),
    ""
  ].join("\n")
}

const commandOf = (program: string, flags: Readonly<Record<string, string>>): ReadonlyArray<string> => [
  program,
  ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
]

export interface ClusterOptions {
  readonly directory: string
  readonly logs: string
  readonly etcd3: boolean
  readonly isAsynchronous: boolean
  readonly say: (line: string) => void
}

export class Cluster {
  readonly network = new Network()
  readonly nodes: ReadonlyArray<PatroniNode>
  readonly etcd: Daemon
  private readonly haproxy: Daemon
  private readonly options: ClusterOptions

  constructor(options: ClusterOptions) {
    this.options = options
    const { directory, logs } = options
    this.nodes = nodeNames.map((name) => new PatroniNode({ ...options, name, directory: path.join(directory, name) }))
    const peer = `http://${addresses.dcs}:2380`
    this.etcd = new Daemon({
      name: "etcd",
      logs,
      command: within(
        "dcs",
        commandOf("etcd", {
          name: "dcs",
          "data-dir": path.join(directory, "etcd"),
          "enable-v2": "true",
          "listen-client-urls": etcdUrl,
          "advertise-client-urls": etcdUrl,
          "listen-peer-urls": peer,
          "initial-advertise-peer-urls": peer,
          "initial-cluster": `dcs=${peer}`,
          logger: "zap",
          "log-level": "warn"
        })
      )
    })
    const file = path.join(directory, "haproxy.cfg")
    fs.writeFileSync(file, haproxyConfiguration())
    this.haproxy = new Daemon({ name: "haproxy", logs, command: ["haproxy", "-db", "-f", file] })
  }

  async start(): Promise<void> {
    await this.network.build()
    this.etcd.start()
    await expectSoon(15, "etcd answers", () => fetchJson<object>(`${etcdUrl}/version`))
    for (const node of this.nodes) node.start()
    this.haproxy.start()
    await this.becomeWhole(90)
  }

  node(name: NodeName): PatroniNode {
    return this.nodes.find((node) => node.name === name)!
  }

  /**
   * Starts what was killed, and resolves when a primary has two standbys, one of them synchronous, and Patroni works on all nodes.
   * Does what an operator would if that takes long: starts a Patroni that sleeps, or a standby that does not follow, again.
   */
  async becomeWhole(seconds: number): Promise<PatroniNode> {
    this.etcd.start()
    for (const node of this.nodes) node.start()
    let primary = await poll(10, () => this.wholePrimary())
    if (primary === null) await this.wakeSleepers()
    primary ??= await poll(20, () => this.wholePrimary())
    if (primary === null) await this.restartStrays()
    return primary ?? expectSoon(seconds, "the cluster is whole", () => this.wholePrimary())
  }

  private async wholePrimary(): Promise<PatroniNode | null> {
    const primary = await this.writablePrimary()
    if (primary === null) return null
    const standbys = await this.standbysOf(primary)
    const isSynchronous = this.options.isAsynchronous ||
      standbys.some(({ sync_state }) => sync_state === "sync") && await this.synchronousStandby() !== null
    if (standbys.length < 2 || !isSynchronous) return null
    return (await this.sleepers()).length === 0 ? primary : null
  }

  /** Nodes whose Patroni has not looked at etcd for four seconds, although it looks each second. Patroni 3.0.2 sleeps for as long as its clock has jumped back. */
  private async sleepers(): Promise<ReadonlyArray<PatroniNode>> {
    const lastSeen = async (node: PatroniNode) => {
      const status = fetchJson<{ readonly dcs_last_seen?: number }>(`http://${addresses[node.name]}:8008/patroni`)
      return (await status.catch(() => null))?.dcs_last_seen ?? Infinity
    }
    const times = await Promise.all(this.nodes.map(lastSeen))
    return this.nodes.filter((_, index) => times[index]! < Date.now() / 1000 - 4)
  }

  private async wakeSleepers(): Promise<void> {
    for (const node of await this.sleepers()) {
      this.options.say(`Patroni of ${node.name} sleeps, and is started again`)
      await node.restartPatroni()
    }
  }

  private async restartStrays(): Promise<void> {
    const primary = await this.writablePrimary().catch(() => null)
    if (primary === null) return
    const standbys = await this.standbysOf(primary).catch(() => null)
    for (const node of this.nodes) {
      if (node === primary || standbys === null || standbys.some(({ name }) => name === node.name)) continue
      this.options.say(`${node.name} does not follow the primary, and is started again`)
      await node.kill()
      node.start()
    }
  }

  private standbysOf(primary: PatroniNode) {
    return primary.query<{ readonly name: string; readonly sync_state: string }>(
      "SELECT application_name AS name, sync_state FROM pg_stat_replication WHERE state = 'streaming'"
    )
  }

  /** The node with the leader key. Null: none has it, or etcd does not answer. */
  async leader(): Promise<PatroniNode | null> {
    const name = await this.valueInEtcd("leader").catch(() => null)
    return this.nodes.find((node) => node.name === name) ?? null
  }

  /** The leader, if it is promoted. */
  async writablePrimary(): Promise<PatroniNode | null> {
    const leader = await this.leader()
    if (leader === null) return null
    const [row] = await leader.query<{ recovers: boolean }>("SELECT pg_is_in_recovery() AS recovers")
    return row?.recovers === false ? leader : null
  }

  /** The standby that Patroni may promote. */
  async synchronousStandby(): Promise<PatroniNode | null> {
    const value = await this.valueInEtcd("sync").catch(() => null)
    if (value === null) return null
    const { sync_standby } = JSON.parse(value) as { readonly sync_standby?: string | null }
    return this.nodes.find(({ name }) => sync_standby?.split(",").includes(name)) ?? null
  }

  /** Resolves to the promoted successor of a node, or to null after this many seconds. */
  successorOf(node: PatroniNode, seconds: number): Promise<PatroniNode | null> {
    return poll(seconds, async () => {
      const primary = await this.writablePrimary()
      return primary === node ? null : primary
    }, 100)
  }

  async switchover(from: PatroniNode): Promise<void> {
    const candidate = await this.synchronousStandby()
    // Patroni answers when the switchover is complete, or has failed.
    await fetch(`http://${addresses[from.name]}:8008/switchover`, {
      method: "POST",
      body: JSON.stringify({ leader: from.name, ...candidate !== null && { candidate: candidate.name } }),
      signal: AbortSignal.timeout(20_000)
    }).catch(() => {})
  }

  /** Edits the configuration of the cluster, as `patronictl edit-config` does. */
  async configure(settings: object): Promise<void> {
    const edit = (name: NodeName) =>
      fetchJson<object>(`http://${addresses[name]}:8008/config`, { method: "PATCH", body: JSON.stringify(settings) })
    for (const name of nodeNames) {
      if (await poll(3, () => edit(name)) !== null) return
    }
    throw new Error("no node takes a configuration")
  }

  /** Resolves to whether this many statements wait on the node for a standby, within five seconds. */
  hasWaiters(node: PatroniNode, least: number): Promise<true | null> {
    return poll(5, async () => when((await this.waiters(node)).length >= least), 100)
  }

  /** Process ids of the sessions that wait for a standby. */
  async waiters(node: PatroniNode): Promise<ReadonlyArray<number>> {
    const rows = await node.query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename <> 'postgres'"
    )
    return rows.map(({ pid }) => pid)
  }

  private async valueInEtcd(key: string): Promise<string | null> {
    const name = `/service/chaos/${key}`
    if (!this.options.etcd3) {
      return (await fetchJson<Value>(`${etcdUrl}/v2/keys${name}`)).node?.value ?? null
    }
    const body = JSON.stringify({ key: Buffer.from(name).toString("base64") })
    const found = (await fetchJson<Value>(`${etcdUrl}/v3/kv/range`, { method: "POST", body })).kvs?.[0]
    return found === undefined ? null : Buffer.from(found.value, "base64").toString()
  }
}
