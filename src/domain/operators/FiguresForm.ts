/**
 * The figures of the ledger: what metrics, `status` and the console count, and their form in JSON.
 * The counts of the console's overview: by state, as its plots have them, and by what else holds of some of these operations, as its queues
 * have them. `standing` counts each operation once, for `status`.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { ProviderName } from "../Grant.ts"
import { isTerminal, OperationState } from "../Operation.ts"
import { Timestamp } from "../Timestamp.ts"

/** A process with workers that reported nothing for longer has stopped, or cannot reach the database. */
export const workerSeenWithin = Duration.seconds(30)

/** How the reasons of pauses begin that have a next step of their own: see `findProblems`. */
export const pauseReasons = {
  credentials: "the provider refused the credentials",
  undeclared: "the adapter does not declare its answers",
  probe: "its probe, which sends nothing, failed",
  circuit: "it did not answer several times in a row, so its circuit is open",
  clock: "the clock of this worker",
  payload: "the payload does not fit the schema of",
  type: "the adapter declares no payload of the type"
} as const

/** How the answer of a status read begins that was not asked, because the settings name another account: see `nextAction`. */
export const sentToAccount = "not asked, because it was sent to the account "

/** Whether a reason is about the payloads of operations. Others of the provider may pass. */
export const isOfPayload = (reason: string): boolean =>
  reason.startsWith(pauseReasons.payload) || reason.startsWith(pauseReasons.type)

/** The largest `count` of due work, and of operations that are unauthorized, keyless or unread. It stands for this many operations or more. */
export const maxDueCount = 1000

/**
 * Conditions that an operation should leave soon. A held operation is in `held` and not in `accepted`. One under review, or whose status is
 * not read, is also in the condition of its state. `unauthorized` and `unread`: nothing allows to send it, or to read its status, such as
 * after a revocation. `keyless`: no worker that tried has the key of its payload, or it is plain text that workers with keys do not send.
 * An unauthorized or keyless one is in `accepted`, too. `approval`: a person may decide about it now. It is in `standing` alone.
 */
export const conditions = [
  "accepted",
  "submitting",
  "submitted",
  "indeterminate",
  "unauthorized",
  "keyless",
  "unread",
  "approval",
  "held",
  "under_review"
] as const
export type Condition = typeof conditions[number]

/**
 * Work that may be due. `take_over`: of a returned claim. `rescue`: also the rescue of a returned claim of an earlier timeline.
 * `examine`: the status read of a held operation. `read_success`: that of a success that its provider may reverse.
 */
export const dueWork = ["claim", "take_over", "rescue", "read_status", "examine", "read_success"] as const
export type DueWork = typeof dueWork[number]

/** A process with workers, as it last reported itself. */
const SeenWorker = Schema.Struct({
  /** Chosen by the process when it starts. */
  process_id: Schema.String,
  /** Its `WORKER_ID`, if it has one. */
  worker_id: Schema.NullOr(Schema.String),
  version: Schema.String,
  started_at: Timestamp,
  seen_at: Timestamp,
  /** Why the process sends nothing to each of its providers. Null: it sends. An earlier version tells of none. */
  pauses: Schema.Record(ProviderName, Schema.NullOr(Schema.String)),
  /**
   * By how many milliseconds its clock was proven to be ahead of the clock of the database; negative: behind. 0: they may be equal. Null:
   * it has not compared them, or has an earlier version.
   */
  clock_skew_ms: Schema.NullOr(Schema.Finite)
})
export type SeenWorker = typeof SeenWorker.Type

/** What a process with workers reports of itself. The queue adds `ProgramVersion`, and the database the times. */
export type WorkerReport = Omit<SeenWorker, "version" | "started_at" | "seen_at">

const Count = Schema.Struct({ provider: ProviderName, count: Schema.Int })

/** Everything but `oldest`, `due`, `unauthorized`, `keyless`, `unread`, `reversed` and `approval` counts every operation of the ledger, as of one snapshot. */
export const Figures = Schema.Struct({
  at: Timestamp,
  /** Providers with operations in a state. Counts of 0 are left out. */
  operations: Schema.Array(Schema.Struct({ provider: ProviderName, state: OperationState, count: Schema.Int })),
  /** Per provider. Each is part of a count in `operations`. */
  held: Schema.Array(Count),
  /** At most `maxDueCount` are counted. */
  unauthorized: Schema.Array(Count),
  keyless: Schema.Array(Count),
  unread: Schema.Array(Count),
  under_review: Schema.Array(Count),
  /** Final operations whose provider proved another outcome in the last 7 days. At most `maxDueCount` of all providers are counted. */
  reversed: Schema.Array(Schema.Struct({ provider: ProviderName, state: OperationState, count: Schema.Int })),
  /** Operations that wait for the decision of a person. Each is part of `held`. At most `maxDueCount` of all providers are counted. */
  approval: Schema.Array(Count),
  /**
   * Since when the oldest operation of the provider has been in its state. When a hold or a review began is not stored. Providers
   * without an operation in the condition are left out.
   */
  oldest: Schema.Array(Schema.Struct({
    provider: ProviderName,
    condition: Schema.Literals(conditions),
    since: Timestamp
  })),
  /**
   * Operations whose next action is due, and since when the first of them has been. At most `maxDueCount` are counted; of `rescue`,
   * the first ones of all providers. If more than `maxDueCount` clients have accepted operations of the provider, `since` is that of
   * the first clients by name.
   */
  due: Schema.Array(Schema.Struct({
    provider: ProviderName,
    work: Schema.Literals(dueWork),
    count: Schema.Int,
    since: Timestamp
  })),
  /** Processes that reported themselves within the last day, the latest first. */
  workers: Schema.Array(SeenWorker)
})
export type LedgerFiguresNow = typeof Figures.Type

/**
 * The operations of a provider that stand under a condition. Each unsettled operation stands under one: the first of `approval`, `held`,
 * `unauthorized`, `keyless` and `unread`, `under_review` and its state that it is in. One that waits for an approval is held while an operator holds
 * it, and after a failover until its release.
 */
const Standing = Schema.Struct({
  provider: ProviderName,
  condition: Schema.Literals(conditions),
  /**
   * Exact, unless more than `maxDueCount` operations of the provider are unauthorized, keyless or unread, or that many of all providers wait for an
   * approval: those that end later count as held.
   */
  count: Schema.Int,
  /** As in `oldest`. Null: unknown, because older operations stand under other conditions: `maxDueCount`, or a held one under `approval`. */
  since: Schema.NullOr(Timestamp),
  /** What a person asks the provider about one under review, because reads may not settle it. */
  question: Schema.NullOr(Schema.String),
  /** The answer of the last status read of that one. */
  answer: Schema.optionalKey(Schema.NullOr(Schema.String)),
  /** Of the condition `submitting` alone. At most `maxDueCount` operations are looked at. */
  claims: Schema.optionalKey(Schema.Struct({
    /** Claims that permit sending now, and when the right of the first and of the last of them ends. */
    count: Schema.Int,
    /** Claims that permit no sending any more, and whose operations may have been sent: their worker is lost, or waits for an answer. */
    lost: Schema.Int,
    first_end: Schema.NullOr(Timestamp),
    last_end: Schema.NullOr(Timestamp),
    /** When the first of all is taken over, or rescued. */
    next_at: Schema.NullOr(Timestamp)
  }))
})

/** The operations of a provider that failed with a code in the last 24 hours. */
const Failures = Schema.Struct({
  provider: ProviderName,
  code: Schema.String,
  /** At most `maxDueCount` are counted: the latest. */
  count: Schema.Int,
  /** When the first of them failed. */
  since: Timestamp,
  /** Whether the code says that nothing was sent. */
  unsent: Schema.Boolean
})

export const FiguresByCondition = Schema.Struct({
  ...Figures.fields,
  standing: Schema.Array(Standing),
  failed: Schema.Array(Failures)
})
export type FiguresByCondition = typeof FiguresByCondition.Type

/** Transitions of a provider within one interval. */
export interface FlowPoint {
  /** Begin of the interval. */
  readonly at: DateTime.Utc
  readonly provider: ProviderName
  /** Operations that entered the state in the interval. Acceptances enter `accepted`. */
  readonly entered: Readonly<Partial<Record<OperationState, number>>>
  /** Operations in each state at the end of the interval. */
  readonly standing: Readonly<Partial<Record<OperationState, number>>>
}

/** The operations of a provider in a column. One that is held or under review is in the column of its state, too. */
export const OverviewColumn = Schema.Struct({
  provider: ProviderName,
  name: Schema.Literals(conditions),
  count: Schema.Int,
  /** Since when the oldest of them has been in its state. Null: unknown. */
  since: Schema.NullOr(Timestamp)
})
export type OverviewColumn = typeof OverviewColumn.Type

type Count = Omit<OverviewColumn, "since">

export const overviewColumns = (figures: FiguresByCondition): ReadonlyArray<OverviewColumn> => {
  const { approval, keyless, oldest, operations, standing, unauthorized, under_review, unread } = figures
  const named = (name: Count["name"], rows: ReadonlyArray<Omit<Count, "name">>): ReadonlyArray<Count> =>
    rows.map(({ count, provider }) => ({ provider, name, count }))
  const counts = [
    ...operations.flatMap(({ count, provider, state }): ReadonlyArray<Count> =>
      // No column is about settled operations.
      isTerminal(state) ? [] : [{ provider, name: state as Count["name"], count }]
    ),
    ...named("approval", approval),
    // Those that only their decision releases are in `held` of the figures, and in another queue.
    ...named("held", standing.filter(({ condition }) => condition === "held")),
    ...named("unauthorized", unauthorized),
    ...named("keyless", keyless),
    ...named("unread", unread),
    ...named("under_review", under_review)
  ]
  return counts.map((row) => {
    const isOf = (condition: Count["name"]) => condition === row.name || row.name === "accepted" && condition === "held"
    const times = (row.name === "approval" || row.name === "held" ? standing : oldest)
      .flatMap(({ condition, provider, since }) => provider === row.provider && isOf(condition) ? since ?? [] : [])
    return { ...row, since: times.length === 0 ? null : times.reduce((one, other) => DateTime.min(one, other)) }
  })
}
