/** What a run is asked to do, and the settings that its processes share. */
import { Schema } from "effect"
import type { Control } from "../kit/Figure.ts"
import type { FigureName } from "./Judge.ts"

/** The faults of a run. Fifteen: the short form has each of them once. */
export const faultKinds = [
  /** Patroni moves the primary, as an operator asks. */
  "switchover",
  /** SIGKILL to the postmaster of the primary alone. */
  "kill_postmaster",
  /** SIGKILL to Patroni and PostgreSQL of the primary. Sometimes the synchronous standby is late in its replay. */
  "kill_node",
  /** SIGKILL to one session of the gateway on the primary: PostgreSQL restarts on the same timeline. */
  "kill_backend",
  /** SIGSTOP to Patroni and PostgreSQL of the primary, past the time to live of its leader key. */
  "freeze",
  /** The primary loses etcd and the standbys, and keeps its clients. */
  "cut",
  /** The same, in one direction only. */
  "one_way",
  /** The links of a node are slow, and its packets late. */
  "slow_links",
  /** The clock of a node jumps, and later jumps back. */
  "clock_jump",
  /** SIGKILL to Patroni and PostgreSQL of the synchronous standby. */
  "kill_standby",
  "etcd_down",
  /** The primary is cut off, and an operator cancels the statements that wait for a standby. */
  "cancel_waits",
  /** The primary is cut off, and a session that waits for a standby gets SIGKILL. */
  "kill_waiting_backend",
  /** The primary loses its standbys, an operator switches synchronous replication off, and then the primary dies. */
  "edit_configuration",
  /** Two of the others at a time. */
  "pair"
] as const
export const allKinds = [
  ...faultKinds,
  /** A part of `kill_node`: a reader of the synchronous standby delays its replay, and then the primary dies. */
  "late_replay",
  /** Only in a control: asynchronous standbys lose the primary, which then dies. */
  "lag_and_kill"
] as const
export const FaultKind = Schema.Literals(allKinds)
export type FaultKind = typeof FaultKind.Type

/** Protections of the gateway that a run can leave out. */
export const protections = ["synchronous", "witness", "standby-reads"] as const
export type Protection = typeof protections[number]

/** What a run is without, and what it must therefore find. */
export interface ClusterControl extends Control {
  readonly without: ReadonlyArray<Protection>
  /** The faults that show it, in turn. */
  readonly faults: ReadonlyArray<FaultKind>
  readonly breaks: ReadonlyArray<FigureName>
  readonly isAsynchronous?: true
  readonly readsInRecovery?: true
  readonly releasesAtOnce?: true
  readonly etcd3?: true
}

export const controls = {
  asynchronous: {
    meaning: "Patroni's synchronous_mode is off, and the gateway does not require it",
    without: protections,
    faults: ["lag_and_kill"],
    breaks: ["lost", "unsaid", "orphans"],
    isAsynchronous: true
  },
  "barrier-off": {
    meaning: "the gateway does not confirm statements (DATABASE_SYNCHRONOUS is off)",
    without: protections,
    faults: ["cancel_waits", "kill_waiting_backend"],
    breaks: ["unsaid", "lost"]
  },
  "reads-in-recovery": {
    meaning: "servers in recovery answer reads, and statements are not confirmed",
    without: protections,
    faults: ["late_replay"],
    breaks: ["revoked", "back"],
    readsInRecovery: true
  },
  "release-at-once": {
    meaning: "held operations are released after each promotion, without a witness and without confirmed statements",
    without: protections,
    faults: ["cancel_waits"],
    breaks: ["doubles", "doubleSends"],
    releasesAtOnce: true
  },
  "etcd3-frozen": {
    meaning: "Patroni 3.0.2 with the interface v3 of etcd, which forgets a successor (patroni#2689)",
    without: protections,
    faults: ["freeze"],
    breaks: ["lost", "unsaid", "orphans"],
    etcd3: true
  }
} as const satisfies Readonly<Record<string, ClusterControl>>
export type ControlName = keyof typeof controls
export const controlNames = Object.keys(controls) as ReadonlyArray<ControlName>

/** The configuration of a run in its room: JSON in the environment. */
export const RunConfig = Schema.fromJsonString(Schema.Struct({
  /** Where the data of the servers is, until the end of the run. */
  directory: Schema.String,
  /** Where the evidence goes. */
  out: Schema.String,
  seed: Schema.String,
  faults: Schema.Int,
  /** Only these kinds; empty: all. */
  kinds: Schema.Array(FaultKind),
  without: Schema.Array(Schema.Literals(protections)),
  control: Schema.NullOr(Schema.Literals(controlNames))
}))
export type RunConfig = typeof RunConfig.Type

export const configVariable = "CLUSTER_CHAOS_CONFIG"

/**
 * Patroni's times in seconds, as short as it allows: it needs `ttl` ≥ `loop_wait` + 2 × `retry_timeout`, whole seconds, and
 * 3 s for a retry. A failover takes about `ttl` and 2 s.
 */
export const patroniTimes = { ttl: 8, loop_wait: 1, retry_timeout: 3 }

/** Addresses on the bridge of the room. */
export const addresses = {
  app: "10.77.0.10",
  dcs: "10.77.0.9",
  pg1: "10.77.0.1",
  pg2: "10.77.0.2",
  pg3: "10.77.0.3"
} as const
export type Host = keyof typeof addresses
export const nodeNames = ["pg1", "pg2", "pg3"] as const
export type NodeName = typeof nodeNames[number]

export const ports = {
  primary: 5000,
  standby: 5001,
  /** Two of each, and clients change between them. */
  gateways: [3000, 3001],
  payments: [3002, 3003],
  sandbox: 4010,
  sandboxControl: 4011
} as const

/** The provider of the payments. */
export const providerName = "bank"

/** Seconds within which submissions resume, with a witness, after a fault that leaves a majority. */
export const resumesWithin = 60
