/** Configuration and messages of the processes of the submission benchmark. */
import type { GrantIdentity } from "../../src/domain/Grant.ts"
import type { ProviderLimit } from "../../src/domain/ProviderLimit.ts"
import type { DatabaseAddress } from "../shared/processes.ts"

/** The upstream provider of the operations. */
export const provider = "bank"

/** The contestant with whose figures the others are compared. */
export const baseline = "one worker"

/** Jobs or submissions at the same time in one process: the default of `SubmissionPolicy`. */
export const concurrency = 32

/**
 * Milliseconds that a distant provider takes for a submission. A provider that answers at once measures only the CPUs
 * of the machine.
 */
export const distance = 100

/**
 * Acceptances in a second while processes warm up. At the rate of the measurement the compiler of V8 would still be busy when it
 * begins, and on two cores its threads delay every process.
 */
export const warmUpRate = 500

export type PeerName = "hand-written" | "graphile-worker" | "pg-boss"

/** What submits: the gateway or a peer. */
export type SystemName = "gateway" | PeerName

export interface WorkerConfig {
  readonly database: DatabaseAddress
  readonly sandboxUrl: string
  /** Whether it listens for acceptances, or only polls. */
  readonly listens: boolean
  /** Whether it notes when each submission began, and reports that on the message `"report"`. */
  readonly timed: boolean
  /** The limit of the provider. Without it, the worker reserves no permits. */
  readonly limit?: ProviderLimit
}

export interface SandboxConfig {
  /** Milliseconds that it takes for each submission. */
  readonly delay: number
}

export interface AcceptorConfig {
  readonly database: DatabaseAddress
  /** The system that accepts. */
  readonly into: SystemName
  readonly identity: GrantIdentity
  /** Begins each idempotency key. */
  readonly prefix: string
  /** Requests that are accepted first, at the rate `warmUpRate`. */
  readonly warmUp: number
  /** Requests that are accepted after those, at the rate `perSecond`. */
  readonly count: number
  readonly perSecond: number
  readonly announces: boolean
}

/** Instants by the id of the operation: nanoseconds of a clock that all processes of the machine share. */
export type Instants = ReadonlyArray<readonly [id: string, nanoseconds: number]>

/** Now, by that clock. */
export const now = (): number => Number(process.hrtime.bigint())

/** The payload. The operation succeeds at once, or is acknowledged first and has succeeded by the first status read. */
export const payloadOf = (answer: "at once" | "acknowledged") => ({
  amount: "18.50",
  currency: "EUR",
  to: "Corner Shop",
  sandbox: { outcome: "succeeded", settle_after_ms: answer === "at once" ? 0 : 1 }
})

/** The channel of the hand-written peer. The payload of a notification is the number of added jobs. */
export const peerChannel = "peer_jobs"

/** The task of graphile-worker, and the queue of pg-boss. */
export const taskName = "submit"

/** The address of the database as options of `pg`. */
export const pgOptions = ({ database, port, socketDirectory, username }: DatabaseAddress) => ({
  host: socketDirectory,
  port,
  user: username,
  database
})

/** The same as a URL. `pg` reads the directory of the socket from the parameter `host`. */
export const urlOf = ({ database, port, socketDirectory, username }: DatabaseAddress): string =>
  `postgres://${username}@/${database}?host=${encodeURIComponent(socketDirectory)}&port=${port}`
