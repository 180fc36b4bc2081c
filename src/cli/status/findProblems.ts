/**
 * What `status` finds wrong in the figures of the ledger, and the call that shows more.
 */
import * as Duration from "effect/Duration"
import { describeSkew, longestSkew, warnedSkew } from "../../domain/ClockSkew.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import { isTerminal, type OperationState } from "../../domain/Operation.ts"
import {
  type Condition,
  type DueWork,
  type LedgerFiguresNow,
  maxDueCount,
  type SeenWorker,
  workerSeenWithin
} from "../../domain/operators/FiguresForm.ts"
import { shellWord } from "../../node/process/Invocation.ts"
import { defaultPolicy } from "../../submission/SubmissionPolicy.ts"
import { formatSpan, spanBetween } from "../screen/Screen.ts"

/** The state of the database that a command found. */
export interface Status {
  readonly embedded: boolean
  readonly migrated: boolean
  /** Null: the database lacks migrations. */
  readonly figures: LedgerFiguresNow | null
}

export interface Problem {
  readonly message: string
  /** A call of the program that shows more or helps. Null: there is none. */
  readonly command: string | null
}

/**
 * The longest time in a condition that is no problem: the ages at which workers put operations under review, and that of the alert
 * SubmittingTooOld.
 */
const longest: Readonly<
  Record<Exclude<Condition, "under_review" | "held" | "unauthorized" | "unread">, Duration.Duration>
> = {
  ...defaultPolicy.reviewAfter,
  submitting: Duration.minutes(3)
}

/** The longest delay of due work that is no problem: that of the alert OperationsDueLate. */
const longestLag = Duration.minutes(1)

/** Whether a worker process runs, by its last report. */
export const isSeen = (worker: SeenWorker, { at }: LedgerFiguresNow): boolean =>
  at.epochMilliseconds - worker.seen_at.epochMilliseconds <= Duration.toMillis(workerSeenWithin)

const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`

const listCall = (provider: ProviderName, filter: string): string =>
  `financial-agents-gateway operations list ${filter} --provider ${shellWord(provider)} --order oldest`

/** How many operations of the provider are in the state, held or under review. Held operations are not counted as accepted. */
export const countOf = (
  figures: LedgerFiguresNow,
  provider: ProviderName,
  condition: Condition | OperationState
): number => {
  const of = (counts: LedgerFiguresNow["held"]) => counts.find((count) => count.provider === provider)?.count ?? 0
  if (condition === "held") return of(figures.held)
  if (condition === "under_review") return of(figures.under_review)
  if (condition === "unauthorized") return of(figures.unauthorized)
  if (condition === "unread") return of(figures.unread)
  const inState = of(figures.operations.filter(({ state }) => state === condition))
  return condition === "accepted" ? inState - of(figures.held) : inState
}

const forbidden = "because no live grant, client or provider connection allows it"

const conditionProblems = (figures: LedgerFiguresNow): ReadonlyArray<Problem> =>
  figures.oldest.flatMap(({ condition, provider, since }): ReadonlyArray<Problem> => {
    const number = countOf(figures, provider, condition)
    const count = counted(number, "operation is", "operations are")
    if (condition === "unauthorized") {
      return [{
        message: `${provider}: ${dueCount(number)} ${
          number === 1 ? "operation is" : "operations are"
        } not sent, ${forbidden}`,
        command: listCall(provider, "--waiting --state accepted")
      }]
    }
    if (condition === "unread") {
      const status = number === 1 ? "the status of 1 operation is" : `the status of ${dueCount(number)} operations is`
      return [{
        message: `${provider}: ${status} not read, ${forbidden}`,
        command: listCall(provider, "--waiting --state submitted --state indeterminate")
      }]
    }
    const forPeople = condition === "held" || condition === "under_review"
    if (forPeople) {
      const name = condition.replace("_", " ")
      return [{
        message: `${provider}: ${count} ${name}`,
        command: listCall(provider, `--${condition.replace("_", "-")}`)
      }]
    }
    if (figures.at.epochMilliseconds - since.epochMilliseconds <= Duration.toMillis(longest[condition])) return []
    return [{
      message: `${provider}: ${count} ${condition}, the oldest for ${spanBetween(since, figures.at)}`,
      command: listCall(provider, `--state ${condition}`)
    }]
  })

/** What each kind of due work is called, and which operations it concerns. */
export const dueNames: Readonly<Record<DueWork, { readonly name: string; readonly filter: string }>> = {
  claim: { name: "submission", filter: "--state accepted" },
  take_over: { name: "take-over of returned claims", filter: "--state submitting" },
  rescue: { name: "rescue of stale claims", filter: "--state submitting" },
  read_status: { name: "status read", filter: "--state submitted --state indeterminate" },
  examine: { name: "status read of held operations", filter: "--held" }
}

/** A count of due work, which has an upper limit. */
export const dueCount = (count: number): string => count >= maxDueCount ? `${count} or more` : String(count)

const lagProblems = (figures: LedgerFiguresNow): ReadonlyArray<Problem> =>
  figures.due
    .filter(({ since }) => figures.at.epochMilliseconds - since.epochMilliseconds > Duration.toMillis(longestLag))
    .map(({ count, provider, since, work }) => ({
      message: `${provider}: ${dueNames[work].name} is late by ${spanBetween(since, figures.at)} (${
        dueCount(count)
      } due)`,
      command: listCall(provider, dueNames[work].filter)
    }))

/** Operations that wait to be sent. A worker that is not paused may be sending some of them. */
export const unsentOf = (figures: LedgerFiguresNow, provider: ProviderName): number =>
  countOf(figures, provider, "accepted") + countOf(figures, provider, "submitting")

/** The providers for which a worker is paused, with the reasons. */
export const pausesOf = ({ pauses }: SeenWorker): ReadonlyArray<readonly [ProviderName, string]> =>
  Object.entries(pauses).flatMap(([provider, reason]) => reason === null ? [] : [[provider as ProviderName, reason]])

const workerProblems = (figures: LedgerFiguresNow): ReadonlyArray<Problem> => {
  const seen = figures.workers.filter((worker) => isSeen(worker, figures))
  const unsettled = figures.operations.filter(({ state }) => !isTerminal(state))
  const waiting = unsettled.reduce((sum, { count }) => sum + count, 0)
  const pauses = seen.flatMap((worker) =>
    pausesOf(worker).map(([provider, reason]): Problem => ({
      message: `${provider}: worker ${worker.worker_id ?? worker.process_id} is paused, and ${
        counted(unsentOf(figures, provider), "operation waits", "operations wait")
      }: ${reason}`,
      command: listCall(provider, "--state accepted --state submitting")
    }))
  )
  const clocks = seen.flatMap(({ clock_skew_ms, process_id, worker_id }): ReadonlyArray<Problem> =>
    clock_skew_ms === null || Math.abs(clock_skew_ms) <= warnedSkew ? [] : [{
      message: `the clock of worker ${worker_id ?? process_id} is ${describeSkew(clock_skew_ms)}${
        Math.abs(clock_skew_ms) > longestSkew ? ", so it sends nothing" : ""
      }`,
      command: null
    }]
  )
  if (seen.length > 0 || waiting === 0) return [...clocks, ...pauses]
  return [{
    message: `no worker has reported for ${formatSpan(Duration.toMillis(workerSeenWithin))}, and ${
      counted(waiting, "operation is", "operations are")
    } unsettled`,
    command: "financial-agents-gateway work --help"
  }]
}

/** A line for each problem, the most urgent first. */
export const findProblems = ({ figures }: Status): ReadonlyArray<Problem> =>
  figures === null
    ? [{ message: "the database lacks migrations", command: "financial-agents-gateway migrate" }]
    : [...workerProblems(figures), ...conditionProblems(figures), ...lagProblems(figures)]
