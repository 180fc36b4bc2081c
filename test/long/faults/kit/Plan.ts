/** The settings that the processes of a run share: the policy of the workers, their crash points, and their messages. */
import { Duration, Schema } from "effect"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { type BankName, bankNames } from "./Banks.ts"
import { slowness } from "./Clock.ts"
import { mistakeNames } from "./Mistakes.ts"
import { BankKeys } from "./OpenBanking.ts"

/** The five points at which a worker can be struck, in the order of an operation's way. */
export const crashPoints = [
  "before_claim",
  /** The claim is written to the database, and its answer is never read. */
  "before_acknowledgement",
  /** The claim is acknowledged, and nothing was sent. */
  "before_send",
  /** The provider has answered, and nothing was recorded. */
  "before_record",
  "after_record"
] as const
export const CrashPoint = Schema.Literals(crashPoints)
export type CrashPoint = typeof CrashPoint.Type

/** SIGKILL, or SIGSTOP: a process that stops at this point and continues later. */
export const blows = ["kill", "stop"] as const
export const Blow = Schema.Literals(blows)
export type Blow = typeof Blow.Type

/** An order to a worker, as a line of JSON on its standard input: strike yourself when you next reach this point. */
export const Order = Schema.fromJsonString(Schema.Struct({ point: CrashPoint, blow: Blow }))
export type Order = typeof Order.Type

/** A message of a worker: it has started, it is about to strike itself, or it continues. */
export const Message = Schema.fromJsonString(Schema.Union([
  Schema.TaggedStruct("Ready", {}),
  Schema.TaggedStruct("Struck", { point: CrashPoint, blow: Blow }),
  Schema.TaggedStruct("Resumed", {})
]))
export type Message = typeof Message.Type

/** The configuration of a worker: JSON in its environment. */
export const WorkerConfig = Schema.fromJsonString(Schema.Struct({
  /** Ports of the proxies to the database and to the sandbox. */
  databasePort: Schema.Int,
  sandboxPort: Schema.Int,
  username: Schema.String,
  database: Schema.String,
  mistake: Schema.NullOr(Schema.Literals(mistakeNames)),
  /** The bank whose adapter works. Null: those for the sandbox. */
  bank: Schema.NullOr(Schema.Literals(bankNames)),
  keys: BankKeys
}))
export type WorkerConfig = typeof WorkerConfig.Type

/** Name of the variable that holds the configuration of a process. */
export const configVariable = "FAULTS_CONFIG"

/**
 * One sandbox under two names: `careful` accepts no "not found", `windowed` accepts it this many milliseconds
 * after the last moment at which the operation can have been sent.
 */
export const windows = { careful: null, windowed: 3000 } as const

/** The providers of a run: the two names of the sandbox, or the simulator of a bank. */
export type Provider = keyof typeof windows | BankName
export const providersOf = (bank: BankName | null): ReadonlyArray<Provider> =>
  bank === null ? Object.keys(windows) as ReadonlyArray<keyof typeof windows> : [bank]

/** After which time "not found" is final with a provider. Null: never. */
export const windowOf = (provider: string): number | null => provider === "windowed" ? windows.windowed : null

const seconds = (count: number) => Duration.seconds(count * slowness)

/**
 * Short times, so that every kind of lateness occurs often. Few submissions at once, so that a busy machine ends each within these times.
 * What stays unsettled is read once a minute: at some banks that is one operation in twenty.
 */
export const policy: typeof defaultPolicy = {
  ...defaultPolicy,
  concurrency: 8,
  providerConcurrency: 4,
  sendWithin: seconds(2),
  attemptTimeout: seconds(1),
  retryDelay: Duration.millis(100),
  rescueAfter: seconds(4),
  readTimeout: seconds(1),
  readSchedule: { first: Duration.millis(200), factor: 1.6, longest: Duration.seconds(60), jitter: 0.2 },
  idle: Duration.seconds(2),
  pollInterval: Duration.millis(400),
  rescueInterval: Duration.millis(200),
  drainTimeout: seconds(2),
  storeTimeout: seconds(1)
}
