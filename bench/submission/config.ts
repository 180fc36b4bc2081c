/**
 * What the processes of the submission benchmark are told, and what they say.
 */
import type { GrantIdentity } from "../../src/domain/Grant.ts"
import type { DatabaseAddress } from "../child.ts"

/** The upstream provider of the operations. */
export const provider = "bank"

/** Jobs or submissions at the same time in one process. It is the default of `SubmissionPolicy`. */
export const concurrency = 32

/**
 * Milliseconds that a distant provider takes for a submission. One that answers at once shows what the CPUs of the machine
 * allow, and no more.
 */
export const distance = 100

export interface WorkerConfig {
  readonly database: DatabaseAddress
  readonly sandboxUrl: string
  /** Whether it is told when something was accepted, or looks from time to time alone. */
  readonly listens: boolean
  /** Whether it notes when each submission began, and tells when it is sent `"report"`. */
  readonly timed: boolean
}

export interface SandboxConfig {
  /** Milliseconds that it takes for each submission. */
  readonly delay: number
}

export interface AcceptorConfig {
  readonly database: DatabaseAddress
  /** Who accepts: the ledger, or the peer's queue. */
  readonly into: "ledger" | "peer"
  readonly identity: GrantIdentity
  /** Begins each idempotency key. */
  readonly prefix: string
  readonly count: number
  readonly perSecond: number
  readonly announces: boolean
}

/** Instants by the id of the operation: nanoseconds of a clock that all processes of the machine share. */
export type Instants = ReadonlyArray<readonly [id: string, nanoseconds: number]>

/** Now, by that clock. */
export const now = (): number => Number(process.hrtime.bigint())

/** What is submitted: it succeeds at once, or is acknowledged first and has succeeded when its status is read. */
export const payloadOf = (answer: "at once" | "acknowledged") => ({
  amount: "18.50",
  currency: "EUR",
  to: "Corner Shop",
  sandbox: { outcome: "succeeded", settle_after_ms: answer === "at once" ? 0 : 1 }
})

/** The channel of the peer: how many jobs were added. */
export const peerChannel = "peer_jobs"

/** The database, as `pg` wants to be told. */
export const pgOptions = ({ database, port, socketDirectory, username }: DatabaseAddress) => ({
  host: socketDirectory,
  port,
  user: username,
  database
})
