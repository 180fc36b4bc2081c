/** The contestants of the submission benchmark. */
import { Effect, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import type { Grant } from "../../src/domain/Grant.ts"
import type { ProviderLimit } from "../../src/domain/ProviderLimit.ts"
import type { DatabaseAddress } from "../shared/processes.ts"
import { baseline, type PeerName, type SystemName } from "./config.ts"
import { ageLedger, makeLedgerQueue } from "./ledgerQueue.ts"
import { peerQueues } from "./peerQueues.ts"
import type { Answer, Queue } from "./queue.ts"

interface System {
  /** The script of a worker process. */
  readonly script: string
  /** Creates the queue with `age` settled submissions, so that PostgreSQL does not plan for empty tables. */
  readonly prepare: (
    database: DatabaseAddress,
    grant: Grant,
    age: number
  ) => Effect.Effect<Queue, never, SqlClient.SqlClient | Scope.Scope>
}

const gateway: System = {
  script: "submission/worker.ts",
  prepare: (_, grant, age) => Effect.tap(makeLedgerQueue(grant), (queue) => ageLedger(queue, age))
}

const peer = (name: PeerName, script: string): System => ({
  script,
  prepare: (database, _, age) => Effect.andThen(peerQueues[name].create(database, age), peerQueues[name].open(database))
})

export const systems: Readonly<Record<SystemName, System>> = {
  "gateway": gateway,
  "hand-written": peer("hand-written", "submission/peers/handWritten.ts"),
  "graphile-worker": peer("graphile-worker", "submission/peers/graphileWorker.ts"),
  "pg-boss": peer("pg-boss", "submission/peers/pgBoss.ts")
}

export interface Contestant {
  readonly name: string
  readonly system: SystemName
  readonly workers: number
  readonly answer: Answer
  /** Whether the workers listen for acceptances, or only poll. */
  readonly listens: boolean
  /** The limit of the provider. Only the gateway keeps one. */
  readonly limit?: ProviderLimit
}

const one: Contestant = { name: baseline, system: "gateway", workers: 1, answer: "at once", listens: true }

const two = (contestant: Contestant, name = `${contestant.name} ×2`): Contestant => ({
  ...contestant,
  name,
  workers: 2
})
const polling = (contestant: Contestant, name: string): Contestant => ({ ...contestant, name, listens: false })

const peers = (["hand-written", "graphile-worker", "pg-boss"] as const).map((system): Contestant => ({
  ...one,
  name: system,
  system
}))

/** So high that no request waits: it shows what the reservations cost. */
const highLimit: ProviderLimit = { requests: 100_000, interval: "1 second" }

const throughput: ReadonlyArray<Contestant> = [
  one,
  two(one, "two workers"),
  { ...one, name: "with a limit", limit: highLimit },
  { ...one, name: "acknowledged", answer: "acknowledged" },
  ...peers.flatMap((peer) => [peer, two(peer)])
]

/** What is measured, and the contestants of it. */
export const measurements = {
  /** With a provider that answers at once. */
  throughput,
  /** With a provider that takes `distance` milliseconds. */
  distant: throughput.filter(({ answer, limit }) => answer === "at once" && limit === undefined),
  /** From the acceptance to the request. */
  latency: [one, polling(one, "polling"), ...peers, polling(peers.at(-1)!, "pg-boss polling")]
}

export type MeasurementName = keyof typeof measurements
export const measurementNames = Object.keys(measurements) as ReadonlyArray<MeasurementName>

/** The name of a contestant as an argument. */
export const argumentOf = ({ name }: Contestant): string => name.replaceAll(" ", "-").replace("×", "x")

export const contestantArguments: ReadonlyArray<string> = [
  ...new Set(Object.values(measurements).flat().map(argumentOf))
]
