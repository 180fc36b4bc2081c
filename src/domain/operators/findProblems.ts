/** What needs people, by the figures of the ledger, and what they do about it: for `status` and the console. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { describeSkew, longestSkew, warnedSkew } from "../ClockSkew.ts"
import type { ProviderName } from "../Grant.ts"
import { isTerminal, OperationState } from "../Operation.ts"
import { defaultReviewAfter } from "../Submission.ts"
import {
  type Condition,
  type DueWork,
  type FiguresByCondition,
  isOfPayload,
  type LedgerFiguresNow,
  maxDueCount,
  pauseReasons,
  type SeenWorker,
  workerSeenWithin
} from "./FiguresForm.ts"
import { setBack, stepOnPause } from "./nextAction.ts"
import type { Problem, ProblemFilter } from "./Problem.ts"
import { workerName } from "./workerName.ts"

type Claims = NonNullable<FiguresByCondition["standing"][number]["claims"]>

/**
 * The longest time in a condition that is no problem: the ages at which workers put operations under review, and that of the alert
 * SubmittingTooOld. Zero: each operation in the condition needs people.
 */
const longest: Readonly<Record<Condition, Duration.Duration>> = {
  ...defaultReviewAfter,
  submitting: Duration.minutes(3),
  approval: Duration.zero,
  held: Duration.zero,
  under_review: Duration.zero,
  unauthorized: Duration.zero,
  keyless: Duration.zero,
  unread: Duration.zero
}

/** The longest delay of due work that is no problem: that of the alert OperationsDueLate. Successes are read once a day, after other work. */
const longestLag = (work: DueWork): Duration.Duration =>
  work === "read_success" ? Duration.hours(1) : Duration.minutes(1)

const lasts = (since: DateTime.Utc, { at }: LedgerFiguresNow, longest: Duration.Duration): boolean =>
  at.epochMilliseconds - since.epochMilliseconds > Duration.toMillis(longest)

/** Whether a worker process runs, by its last report. */
export const isSeen = ({ seen_at }: SeenWorker, figures: LedgerFiguresNow): boolean =>
  !lasts(seen_at, figures, workerSeenWithin)

const counted = (count: number, one: string, many: string): string => `${dueCount(count)} ${count === 1 ? one : many}`

/** A count of due work, which has an upper limit. */
export const dueCount = (count: number): string => count >= maxDueCount ? `${count} or more` : String(count)

/** How many operations of the provider stand under the condition. */
const countOf = ({ standing }: FiguresByCondition, provider: ProviderName, condition: Condition): number =>
  standing.find((row) => row.provider === provider && row.condition === condition)?.count ?? 0

const forbidden = "because no live grant, client or provider connection allows it"

const operationsAre = (what: string) => (count: number): string =>
  `${counted(count, "operation is", "operations are")} ${what}`

/** The count is that of the state. Only the oldest operation is known to be in it for too long. */
const allAre = (state: OperationState) => (count: number): string =>
  `${operationsAre(state)(count)}${count === 1 ? "" : ", young ones included"}`

const askProvider = "Ask the provider for the outcome, and record it."

/** What is wrong with operations in a condition for too long, and what people do. */
const conditionTexts: Readonly<
  Record<
    Condition,
    { readonly filter: ProblemFilter; readonly message: (count: number) => string; readonly next: string }
  >
> = {
  accepted: {
    filter: { states: ["accepted"] },
    message: allAre("accepted"),
    next: "Each of them tells what it waits for."
  },
  submitting: {
    filter: { states: ["submitting"] },
    message: allAre("submitting"),
    next:
      "Each of them tells why its claim was returned, if it was: repair that. Workers take them over, or rescue them."
  },
  submitted: { filter: { states: ["submitted"] }, message: allAre("submitted"), next: askProvider },
  indeterminate: { filter: { states: ["indeterminate"] }, message: allAre("indeterminate"), next: askProvider },
  unauthorized: {
    filter: { queue: "waiting", states: ["accepted"] },
    message: operationsAre(`not sent, ${forbidden}`),
    next: "Workers send them once a new grant, the client or the connection allows it. Otherwise cancel them."
  },
  keyless: {
    filter: { queue: "waiting", states: ["accepted"] },
    message: operationsAre("not sent, because the workers lack the key of the payload"),
    next:
      "Do not cancel them: give the workers the key in `PAYLOAD_KEYS`, or allow plain text by `PAYLOAD_PLAINTEXT_UNTIL`. They then send them."
  },
  unread: {
    filter: { queue: "waiting", states: ["submitted", "indeterminate"] },
    message: (count) => `the status of ${counted(count, "operation", "operations")} is not read, ${forbidden}`,
    next: "Let a new grant, the client or the connection allow it, or ask the provider for the outcome, and record it."
  },
  approval: {
    filter: { queue: "approval" },
    message: (count) => `${counted(count, "operation waits", "operations wait")} for an approval`,
    next: "Approve or deny each of them. Without a decision within 24 hours it is cancelled."
  },
  held: {
    filter: { queue: "held" },
    message: operationsAre("held"),
    next:
      "Each of them tells whether it was never sent: then release or cancel it. Ask the provider about the others first."
  },
  under_review: {
    filter: { queue: "under_review" },
    message: operationsAre("under review"),
    next:
      "Each of them tells what it waits for, and whether it was never sent. Ask the provider about the others, act on the answer, and end the review."
  }
}

/** The time of the day, in UTC. */
const clock = (at: DateTime.Utc): string => DateTime.formatIso(at).slice(11, 19)

/** Whether a worker that runs sends to the provider. */
type IsServed = (provider: ProviderName) => boolean

const checkWorker = "Check that a worker runs for the provider."

const nextTakeOver = (next_at: DateTime.Utc | null | undefined, isServed: boolean): string =>
  isServed && next_at !== null && next_at !== undefined
    ? `A worker runs for the provider, and takes over or rescues the first of them at ${clock(next_at)} UTC.`
    : checkWorker

/** Whether a problem of workers tells of the operations in a condition already. */
type IsTold = (provider: ProviderName, condition: Condition | OperationState) => boolean

const conditionProblems = (
  figures: FiguresByCondition,
  isTold: IsTold,
  isServed: IsServed
): ReadonlyArray<Problem> =>
  figures.standing.filter(({ condition, provider, since }) =>
    !isTold(provider, condition)
    && (Duration.isZero(longest[condition]) || since !== null && lasts(since, figures, longest[condition]))
  ).map(({ answer = null, claims, condition, count, provider, question, since }) => {
    const { filter, message, next } = conditionTexts[condition]
    return {
      message: `${provider}: ${message(count)}`,
      since,
      next: [
        next,
        ...condition === "submitting" ? [nextTakeOver(claims?.next_at, isServed(provider))] : [],
        ...question === null ? [] : [`For one of them, ${setBack(answer, "set")}ask: ${question}`]
      ].join(" "),
      operations: { provider, ...filter }
    }
  })

/** How operations failed that an outage of their provider ended, by code. Clients may request them again. */
const outages: Readonly<Record<string, (count: number) => string>> = {
  provider_unreachable: (count) =>
    `${counted(count, "operation", "operations")} failed unsent in the last 24 h: the provider could not be reached`,
  provider_unavailable: (count) =>
    `${counted(count, "operation", "operations")} failed in the last 24 h: the provider refused to take any request`
}

/** They are told for 24 hours, because no action of an operator ends them. */
const outageProblems = ({ failed }: FiguresByCondition): ReadonlyArray<Problem> =>
  failed.flatMap(({ code, count, provider, since }) => {
    const message = Object.hasOwn(outages, code) ? outages[code]!(count) : null
    return message === null ? [] : [{
      message: `${provider}: ${message} (${code})`,
      since,
      next:
        "The provider did nothing for them. Tell those whom it concerns: their clients may request each again, under another key.",
      operations: { provider, queue: "failed", failure_code: code }
    }]
  })

/** They are told for 7 days, because no action of an operator ends them. */
const reversalProblems = ({ reversed }: LedgerFiguresNow): ReadonlyArray<Problem> =>
  reversed.map(({ count, provider, state }) => ({
    message: state === "succeeded"
      ? `${provider}: ${counted(count, "success was", "successes were")} reversed in the last 7 days`
      : `${provider}: the provider proved in the last 7 days that it has ${
        counted(count, `${state} operation`, `${state} operations`)
      }`,
    since: null,
    next: state === "succeeded"
      ? "Each stays succeeded. Book what came back, and tell those whom it concerns."
      : `Each stays ${state}, and may be paid. Ask the provider what it did, and stop a second request of the same.`,
    operations: { provider, queue: "reversed" }
  }))

/** What each kind of due work is called, and which operations it concerns. `of`: the state that a problem of workers tells of. */
export const dueWorkTexts: Readonly<
  Record<
    DueWork,
    {
      readonly name: string
      /** Null: no list has them. */
      readonly filter: ProblemFilter | null
      readonly of: OperationState
    }
  >
> = {
  claim: { name: "submission", filter: { states: ["accepted"] }, of: "accepted" },
  take_over: { name: "take-over of returned claims", filter: { states: ["submitting"] }, of: "submitting" },
  rescue: { name: "rescue of stale claims", filter: { states: ["submitting"] }, of: "submitting" },
  read_status: { name: "status read", filter: { states: ["submitted", "indeterminate"] }, of: "submitted" },
  examine: { name: "status read of held operations", filter: { queue: "held" }, of: "submitted" },
  read_success: { name: "status read of successes that may be reversed", filter: null, of: "succeeded" }
}

/**
 * Late work that no problem of workers tells of. Operations that workers put off are due again after a while, and late only while workers
 * do not keep up, which may delay the others, too.
 */
const lagProblems = (figures: FiguresByCondition, isTold: IsTold, isServed: IsServed): ReadonlyArray<Problem> =>
  figures.due.filter(({ provider, since, work }) =>
    !isTold(provider, dueWorkTexts[work].of) && lasts(since, figures, longestLag(work))
  ).map(
    ({ count, provider, since, work }) => {
      const { filter, name } = dueWorkTexts[work]
      return {
        message: `${provider}: ${name} is late (${dueCount(count)} due)`,
        since,
        next: `${
          isServed(provider) ? "A worker runs for the provider." : checkWorker
        } If it is busy, start another one.${
          work === "read_success" ? " It reads them only while its adapter promises `reversibleFor`." : ""
        }`,
        operations: filter === null ? null : { provider, ...filter }
      }
    }
  )

const claimsOf = ({ standing }: FiguresByCondition, provider: ProviderName): Claims | undefined =>
  standing.find((row) => row.provider === provider && row.claims)?.claims

/** Operations that wait to be sent. A worker that is not paused may be sending some of them. */
const unsentOf = (figures: FiguresByCondition, provider: ProviderName): number =>
  countOf(figures, provider, "accepted") + countOf(figures, provider, "submitting")
  - (claimsOf(figures, provider)?.lost ?? 0)

/** The providers for which a worker is paused, with the reasons. */
export const pausesOf = ({ pauses }: SeenWorker): ReadonlyArray<readonly [ProviderName, string]> =>
  Object.entries(pauses).flatMap(([provider, reason]) => reason === null ? [] : [[provider as ProviderName, reason]])

/** The operations of a pause that several of them caused. Workers meet different ones, for the same reason. */
const namedOperations = / \(operations [\da-f, -]+\)$/u

/** When claimed operations of a provider that does not answer end. The others wait. */
const endOfClaims = (claims: Claims | undefined): string => {
  const { count = 0, first_end = null, last_end = null } = claims ?? {}
  const first = first_end === null ? "" : clock(first_end)
  const last = last_end === null ? "" : clock(last_end)
  const when = first === last ? `at ${first}` : `from ${first} to ${last}`
  return [
    ...count === 0
      ? []
      : [
        `${counted(count, "of them is", "of them are")} claimed: whether a request has left is open until its try ends.`
      ],
    `A try whose answer is lost makes one indeterminate. If it never connects, the operation ends as failed (provider_unreachable), never sent, ${
      count === 0 ? "once sendWithin has passed" : `${when} UTC`
    }.`,
    "The workers send the others by themselves."
  ].join(" ")
}

const nextOnPause = (reason: string, unsent: number, claims: Claims | undefined): string => {
  const lost = claims?.lost ?? 0
  const end = reason.startsWith(pauseReasons.circuit)
    ? endOfClaims(claims)
    : "The workers then send the operations by themselves."
  return [
    stepOnPause(reason),
    ...unsent === 0 ? [] : [end],
    ...lost === 0
      ? []
      : [`${counted(lost, "other operation", "other operations")} may have been sent before: workers rescue them.`]
  ].join(" ")
}

/** Workers that have paused a provider for the same reason are one problem. */
const pauseProblems = (figures: FiguresByCondition, seen: ReadonlyArray<SeenWorker>): ReadonlyArray<Problem> => {
  const pauses = seen.flatMap((worker) =>
    pausesOf(worker).filter(([provider, reason]) => !isOfPayload(reason) || unsentOf(figures, provider) > 0)
      .map(([provider, reason]) => ({ provider, reason, worker: workerName(worker) }))
  )
  return [
    ...Map.groupBy(pauses, ({ provider, reason }) => `${provider} ${reason.replace(namedOperations, "")}`).values()
  ].map((alike) => {
    const { provider, reason, worker } = alike[0]!
    const paused = alike.length === 1 ? `${worker} is paused` : `${alike.length} workers are paused`
    const unsent = unsentOf(figures, provider)
    const claims = claimsOf(figures, provider)
    const isIdle = unsent === 0 && (claims?.lost ?? 0) === 0
    const waits = unsent === 0 ? "" : `, and ${counted(unsent, "operation waits", "operations wait")}`
    return {
      message: `${provider}: ${paused}${waits}: ${reason}`,
      since: null,
      next: nextOnPause(reason, unsent, claims),
      operations: isIdle ? null : { provider, states: ["accepted", "submitting"] }
    }
  })
}

/** What workers are there for: the unsettled operations, and the successes whose status read is due. */
const workOf = ({ due, operations }: LedgerFiguresNow, isOf: (provider: ProviderName) => boolean) => {
  const open = operations.filter(({ provider, state }) => isOf(provider) && !isTerminal(state))
  const unread = due.filter(({ provider, work }) => isOf(provider) && work === "read_success")
  const sum = (rows: ReadonlyArray<{ readonly count: number }>) => rows.reduce((sum, { count }) => sum + count, 0)
  const told = [
    ...open.length === 0 ? [] : [`${counted(sum(open), "operation is", "operations are")} unsettled`],
    ...unread.length === 0
      ? []
      : [`the status read of ${counted(sum(unread), "success", "successes")} that may be reversed is due`]
  ]
  return { states: open.map(({ state }) => state), text: told.join(", and "), isNone: told.length === 0 }
}

/** Providers with work that no running worker serves. None if a worker of an earlier version does not tell what it serves. */
const unservedOf = (figures: LedgerFiguresNow, seen: ReadonlyArray<SeenWorker>): ReadonlySet<ProviderName> => {
  const served = new Set(seen.flatMap(({ pauses }) => Object.keys(pauses)))
  const tellsNone = seen.length === 0 || seen.some(({ pauses }) => Object.keys(pauses).length === 0)
  const unserved = [...figures.operations, ...figures.due].map(({ provider }) => provider)
    .filter((provider) => !tellsNone && !served.has(provider) && !workOf(figures, (other) => other === provider).isNone)
  return new Set(unserved)
}

const unservedProblem = (figures: FiguresByCondition, provider: ProviderName): Problem => {
  const { states, text } = workOf(figures, (other) => other === provider)
  return {
    message: `${provider}: no worker serves this provider, and ${text}`,
    since: null,
    next: "Start a worker with an adapter for it: `financial-agents-gateway work --help`",
    operations: states.length === 0 ? null : { provider, states }
  }
}

const workerProblems = (
  figures: FiguresByCondition,
  seen: ReadonlyArray<SeenWorker>,
  unserved: ReadonlySet<ProviderName>
): ReadonlyArray<Problem> => {
  const work = workOf(figures, () => true)
  const clocks = seen.flatMap(({ clock_skew_ms, ...worker }): ReadonlyArray<Problem> =>
    clock_skew_ms === null || Math.abs(clock_skew_ms) <= warnedSkew ? [] : [{
      message: `the clock of ${workerName(worker)} is ${describeSkew(clock_skew_ms)}${
        Math.abs(clock_skew_ms) > longestSkew ? ", so it sends nothing" : ""
      }`,
      since: null,
      next: "Set the clock of its machine.",
      operations: null
    }]
  )
  if (seen.length > 0 || work.isNone) {
    return [
      ...[...unserved].map((provider) => unservedProblem(figures, provider)),
      ...clocks,
      ...pauseProblems(figures, seen)
    ]
  }
  return [{
    message: `no worker reports itself, so nothing is sent and no status is read: ${work.text}`,
    since: null,
    next: "Start a worker: `financial-agents-gateway work --help`",
    operations: null
  }]
}

/** The most urgent first. An operation under a condition is told once. Late work, and missing workers, may concern it, too. */
export const findProblems = (figures: FiguresByCondition): ReadonlyArray<Problem> => {
  const seen = figures.workers.filter((worker) => isSeen(worker, figures))
  const unserved = unservedOf(figures, seen)
  const paused = new Set(seen.flatMap((worker) => pausesOf(worker).map(([provider]) => provider)))
  const isTold: IsTold = (provider, condition) =>
    Schema.is(OperationState)(condition)
    && (seen.length === 0 || unserved.has(provider)
      || paused.has(provider) && (condition === "accepted" || condition === "submitting"))
  const isServed: IsServed = (provider) => seen.some(({ pauses }) => pauses[provider] === null)
  return [
    ...workerProblems(figures, seen, unserved),
    ...conditionProblems(figures, isTold, isServed),
    ...outageProblems(figures),
    ...reversalProblems(figures),
    ...lagProblems(figures, isTold, isServed)
  ]
}
