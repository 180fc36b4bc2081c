/** Strikes the cluster with one fault, or two at a time, and heals it. */
import { monotonic, poll, sleep, when } from "../kit/Clock.ts"
import { signal } from "../kit/Daemon.ts"
import type { Dice } from "../kit/Dice.ts"
import { clockLibrary } from "../kit/JumpingClock.ts"
import type { Cluster } from "./Cluster.ts"
import { type Fault, leavesMajority, nameOf } from "./Faults.ts"
import type { Gateways } from "./Gateways.ts"
import type { Direction } from "./Network.ts"
import type { PatroniNode } from "./PatroniNode.ts"
import { nodeNames } from "./Plan.ts"

export interface InjectorOptions {
  readonly cluster: Cluster
  readonly gateways: Gateways
  readonly dice: Dice
  /** Called as soon as a primary is promoted during a fault. */
  readonly onPromotion: () => Promise<void>
}

/** A fault that has begun. */
interface Struck {
  readonly details: string
  /** How long it lasts: until the primary has a successor, and a little longer, or this many seconds. */
  readonly lasts: "succession" | number
  readonly heal: () => Promise<void>
}

/** Seconds in which a primary that can have a successor has one. */
const successionWithin = 25

const nothing = () => Promise.resolve()

type Strike = (options: InjectorOptions, primary: PatroniNode) => Promise<Struck>

const cutOff: readonly ["dcs", ...typeof nodeNames] = ["dcs", ...nodeNames]

/** Cuts the primary off while workers claim and clients pay, and resolves when statements wait for a standby. */
const cutWithWaiters = async (
  { cluster, gateways }: InjectorOptions,
  primary: PatroniNode,
  peers: ReadonlyArray<"dcs" | typeof nodeNames[number]>
): Promise<void> => {
  gateways.pauseWorkers()
  await sleep(1500)
  await cluster.network.cut(primary.name, peers)
  gateways.resumeWorkers()
  await cluster.hasWaiters(primary, 2)
  // Claims are among them by then.
  await sleep(500)
}

const strikes: Readonly<Record<Fault["kind"], Strike>> = {
  switchover: async ({ cluster }, primary) => {
    const done = cluster.switchover(primary)
    return { details: `from ${primary.name}`, lasts: "succession", heal: () => done }
  },
  kill_postmaster: async (_, primary) => {
    await primary.killPostmaster()
    return { details: primary.name, lasts: 3, heal: nothing }
  },
  kill_node: async (options, primary) => {
    if (options.dice.roll() < 0.5) return strikes.late_replay(options, primary)
    await primary.kill()
    return { details: primary.name, lasts: "succession", heal: nothing }
  },
  kill_backend: async (_, primary) => {
    const sessions = await primary.query<{ pid: number; usename: string }>(
      "SELECT pid, usename FROM pg_stat_activity WHERE datname = 'gateway' AND usename <> 'postgres' ORDER BY random() LIMIT 1"
    )
    signal(sessions.map(({ pid }) => pid), "SIGKILL")
    return { details: `a session of ${sessions[0]?.usename ?? "no role"} on ${primary.name}`, lasts: 3, heal: nothing }
  },
  freeze: async (_, primary) => {
    await primary.freeze()
    return { details: primary.name, lasts: "succession", heal: () => primary.thaw() }
  },
  cut: async ({ cluster }, primary) => {
    await cluster.network.cut(primary.name, cutOff)
    return { details: primary.name, lasts: "succession", heal: () => cluster.network.heal() }
  },
  one_way: async ({ cluster, dice }, primary) => {
    const direction: Direction = dice.roll() < 0.5 ? "from" : "to"
    await cluster.network.cut(primary.name, cutOff, direction)
    return { details: `${direction} ${primary.name}`, lasts: "succession", heal: () => cluster.network.heal() }
  },
  slow_links: async ({ cluster, dice }) => {
    const victim = cluster.nodes[dice.below(cluster.nodes.length)]!
    await cluster.network.slow(victim.name)
    const seconds = dice.between(4, 8)
    return {
      details: `${victim.name}, ${cluster.network.slowLinks}`,
      lasts: seconds,
      heal: () => cluster.network.heal()
    }
  },
  clock_jump: async ({ cluster, dice }) => {
    if (clockLibrary === null) return { details: "skipped: no package faketime", lasts: 0, heal: nothing }
    const victim = cluster.nodes[dice.below(cluster.nodes.length)]!
    const seconds = Math.round(dice.between(20, 900)) * (dice.roll() < 0.5 ? 1 : -1)
    victim.setClock(seconds)
    const heal = async () => victim.setClock(0)
    return { details: `${victim.name} by ${seconds} s`, lasts: dice.between(5, 8), heal }
  },
  kill_standby: async ({ cluster, dice }) => {
    const standby = await cluster.synchronousStandby()
    await standby?.kill()
    return { details: standby?.name ?? "none", lasts: dice.between(2, 5), heal: nothing }
  },
  etcd_down: async ({ cluster, dice }) => {
    await cluster.etcd.kill()
    return { details: "", lasts: dice.between(8, 12), heal: async () => cluster.etcd.start() }
  },
  cancel_waits: async (options, primary) => {
    const { cluster } = options
    await cutWithWaiters(options, primary, cutOff)
    let cancelled = 0
    for (let round = 0; round < 6; round++) {
      const waiters = await cluster.waiters(primary).catch(() => [])
      cancelled += waiters.length
      // As an operator does. The server then answers as if the standby had confirmed, with a warning.
      if (waiters.length > 0) {
        await primary.query(`SELECT pg_cancel_backend(pid) FROM unnest(ARRAY[${waiters.join()}]) AS pid`)
      }
      await sleep(300)
    }
    return {
      details: `${cancelled} waits on ${primary.name}`,
      lasts: "succession",
      heal: () => cluster.network.heal()
    }
  },
  kill_waiting_backend: async (options, primary) => {
    const { cluster } = options
    await cutWithWaiters(options, primary, cutOff)
    const waiters = await cluster.waiters(primary)
    signal(waiters.slice(0, 1), "SIGKILL")
    return {
      details: `one of ${waiters.length} on ${primary.name}`,
      lasts: "succession",
      heal: () => cluster.network.heal()
    }
  },
  edit_configuration: async (options, primary) => {
    const { cluster } = options
    await cutWithWaiters(options, primary, nodeNames)
    await cluster.configure({ synchronous_mode: false })
    await poll(6, async () => when((await cluster.waiters(primary)).length === 0), 100)
    await sleep(1000)
    await primary.kill()
    return {
      details: `on ${primary.name}, which then dies`,
      lasts: "succession",
      heal: async () => {
        await cluster.network.heal()
        await cluster.configure({ synchronous_mode: true })
      }
    }
  },
  late_replay: async ({ cluster }, primary) => {
    const standby = await cluster.synchronousStandby()
    await primary.script("CREATE TABLE IF NOT EXISTS read_on_standby (n integer)")
    // A reader of the standby, and a lock on the primary: replay waits for the reader, and commits do not.
    standby?.script("BEGIN; SELECT count(*) FROM read_on_standby; SELECT pg_sleep(16); COMMIT").catch(() => {})
    await sleep(1500)
    await primary.script("BEGIN; LOCK read_on_standby; ALTER TABLE read_on_standby SET (fillfactor = 90); COMMIT")
    // Meanwhile clients pay, and grants are revoked.
    await sleep(4000)
    await primary.kill()
    return { details: `${primary.name}, replay late on ${standby?.name}`, lasts: "succession", heal: nothing }
  },
  lag_and_kill: async ({ cluster }, primary) => {
    await cluster.network.cut(primary.name, nodeNames)
    await sleep(2500)
    await primary.kill()
    return { details: primary.name, lasts: "succession", heal: () => cluster.network.heal() }
  }
}

const lastsUntilOver = async (
  { cluster, dice, onPromotion }: InjectorOptions,
  primary: PatroniNode,
  lasts: Struck["lasts"]
) => {
  if (typeof lasts === "number") return sleep(lasts * 1000)
  if (await cluster.successorOf(primary, successionWithin) === null) return
  await onPromotion()
  // Both primaries are there for a while.
  await sleep(dice.between(500, 3000))
}

/** Strikes, waits and heals. Resolves when everything runs and is connected again; the cluster may still recover. */
export const inject = async (fault: Fault, options: InjectorOptions, primary: PatroniNode) => {
  const { dice, gateways } = options
  // A part of the faults meets operations that are accepted and not claimed.
  const hasBacklog = dice.roll() < 0.5
  if (hasBacklog) {
    gateways.pauseWorkers()
    await sleep(1500)
  }
  const from = monotonic()
  // The second one first: some strikes take seconds.
  const second = fault.second === undefined ? null : await strikes[fault.second](options, primary)
  const first = await strikes[fault.kind](options, primary)
  gateways.resumeWorkers()
  await lastsUntilOver(options, primary, first.lasts)
  await first.heal()
  await second?.heal()
  return {
    name: nameOf(fault),
    details: [first.details, second?.details ?? ""].filter((text) => text !== "").join("; "),
    from,
    healed: monotonic(),
    leavesMajority: leavesMajority(fault)
  }
}
