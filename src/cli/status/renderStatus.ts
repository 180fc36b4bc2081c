/**
 * The figures of the ledger on one screen.
 */
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import { formatSkew, warnedSkew } from "../../domain/ClockSkew.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import { isTerminal, type OperationState } from "../../domain/Operation.ts"
import {
  type Condition,
  conditions,
  type FiguresByCondition,
  type LedgerFiguresNow,
  type SeenWorker,
  workerSeenWithin
} from "../../domain/operators/FiguresForm.ts"
import {
  dueCount,
  dueWorkTexts,
  findProblems,
  isSeen,
  pausesOf,
  type Problem
} from "../../domain/operators/findProblems.ts"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import { shellWord, toInvocation, withInvocations } from "../../node/process/Invocation.ts"
import { conditionStyles, formatSpan, type Screen, spanBetween } from "../screen/Screen.ts"
import { type Column, type Fact, heading, indented, renderFacts, renderTable } from "../screen/Table.ts"

/** The state of the database that a command found. */
export interface Status {
  readonly embedded: boolean
  readonly migrated: boolean
  /** Null: the database lacks migrations. */
  readonly figures: FiguresByCondition | null
}

/** A problem, and the calls of the program that show more or help. */
export interface ShownProblem {
  readonly message: string
  readonly next: string
  readonly command: string | null
}

const listCall = ({ provider, queue, states = [] }: NonNullable<Problem["operations"]>): string =>
  [
    "financial-agents-gateway operations list",
    ...queue === undefined ? [] : [`--${queue.replace("_", "-")}`],
    ...states.map((state) => `--state ${state}`),
    `--provider ${shellWord(provider)} --order oldest`
  ].join(" ")

/** The problems, the most urgent first. */
export const problemsOf = ({ figures }: Status): ReadonlyArray<ShownProblem> =>
  figures === null
    ? [{
      message: "the database lacks migrations",
      next: "Apply them.",
      command: toInvocation("financial-agents-gateway migrate")
    }]
    : findProblems(figures).map(({ message, next, operations, since }) => ({
      message: since === null ? message : `${message}, the oldest for ${spanBetween(since, figures.at)}`,
      next: withInvocations(next),
      command: operations === null ? null : toInvocation(listCall(operations))
    }))

const formatCount = new Intl.NumberFormat("en").format

/** The operations of a provider in a state, held or under review. */
interface Standing {
  readonly provider: ProviderName
  readonly condition: Condition | OperationState
  readonly count: number
  readonly oldest: DateTime.Utc | null
}

/** The operations of each provider, each counted once: unsettled ones first, in the order of `conditions`. */
const standingsOf = ({ operations, standing }: FiguresByCondition): ReadonlyArray<Standing> => {
  const providers = [...new Set(operations.map(({ provider }) => provider))].sort()
  return providers.flatMap((provider): ReadonlyArray<Standing> => [
    ...conditions.flatMap((condition) =>
      standing.filter((row) => row.provider === provider && row.condition === condition)
        .map(({ count, since }) => ({ provider, condition, count, oldest: since }))
    ),
    ...operations.filter((row) => row.provider === provider && isTerminal(row.state))
      .map(({ count, state }) => ({ provider, condition: state, count, oldest: null }))
  ])
}

const standingColumns = ({ at }: LedgerFiguresNow): ReadonlyArray<Column<Standing>> => [
  { title: "provider", cell: ({ provider }) => ({ text: provider }), least: 8 },
  {
    title: "operations",
    cell: ({ condition }) => ({ text: condition.replace("_", " "), style: conditionStyles[condition] })
  },
  { title: "count", cell: ({ count }) => ({ text: formatCount(count) }), align: "right" },
  { title: "oldest", cell: ({ oldest }) => ({ text: oldest === null ? "" : spanBetween(oldest, at) }), align: "right" }
]

const dueColumns = ({ at }: LedgerFiguresNow): ReadonlyArray<Column<LedgerFiguresNow["due"][number]>> => [
  { title: "provider", cell: ({ provider }) => ({ text: provider }), least: 8 },
  { title: "due work", cell: ({ work }) => ({ text: dueWorkTexts[work].name }), least: 8 },
  { title: "count", cell: ({ count }) => ({ text: dueCount(count) }), align: "right" },
  { title: "late by", cell: ({ since }) => ({ text: spanBetween(since, at) }), align: "right" }
]

const workerColumns = (figures: LedgerFiguresNow): ReadonlyArray<Column<SeenWorker>> => [
  {
    title: "worker",
    // Two processes may have one worker id. The whole process id is in `--json`.
    cell: ({ process_id, worker_id }) => ({ text: [worker_id, process_id.slice(0, 8)].filter(Boolean).join(" ") }),
    least: 8
  },
  { title: "version", cell: ({ version }) => ({ text: version }), least: 7 },
  {
    title: "runs for",
    cell: ({ seen_at, started_at }) => ({ text: spanBetween(started_at, seen_at) }),
    align: "right"
  },
  {
    title: "last report",
    cell: (worker) => ({
      text: `${isSeen(worker, figures) ? "" : "lost, "}${spanBetween(worker.seen_at, figures.at)} ago`,
      style: isSeen(worker, figures) ? undefined : "yellow"
    }),
    align: "right"
  },
  {
    title: "clock",
    cell: ({ clock_skew_ms }) => ({
      text: clock_skew_ms === null ? "" : clock_skew_ms === 0 ? "right" : formatSkew(clock_skew_ms),
      style: Math.abs(clock_skew_ms ?? 0) > warnedSkew ? "red" : undefined
    })
  },
  {
    title: "sends to",
    cell: (worker) => ({
      text: Object.entries(worker.pauses)
        .map(([provider, reason]) => reason === null ? provider : `${provider} (paused: ${reason})`).join(", "),
      style: isSeen(worker, figures) && pausesOf(worker).length > 0 ? "red" : undefined
    }),
    least: 8
  }
]

const databaseFacts = (status: Status, now: DateTime.Utc): ReadonlyArray<Fact> => {
  const { embedded, figures, migrated } = status
  return [
    {
      label: "database",
      value: `${embedded ? "embedded" : "external"}, ${migrated ? "migrated" : "lacks migrations"}`,
      style: migrated ? undefined : "red"
    },
    ...figures === null
      ? []
      : [{
        label: "figures",
        value: `${formatTimestamp(figures.at.epochMilliseconds)}, ${spanBetween(figures.at, now)} old`
      }, {
        label: "workers",
        value: `${figures.workers.filter((worker) => isSeen(worker, figures)).length} reported within ${
          formatSpan(Duration.toMillis(workerSeenWithin))
        }`
      }]
  ]
}

const problemLines = (problems: ReadonlyArray<ShownProblem>, screen: Screen): string =>
  problems.length === 0
    ? screen.paint("green", "No problems")
    : [
      heading("Problems", screen),
      ...problems.flatMap(({ command, message, next }) => [
        indented("  ", message, screen, "red"),
        indented("    ", next, screen),
        ...command === null ? [] : [indented("    ", command, screen)]
      ])
    ].join("\n")

const tableOf = <Row>(columns: ReadonlyArray<Column<Row>>, rows: ReadonlyArray<Row>, screen: Screen) =>
  rows.length === 0 ? [] : [renderTable(columns, rows, screen)]

/** The status as text. `now` gives the age of the figures. */
export const renderStatus = (status: Status, now: DateTime.Utc, screen: Screen): string => {
  const { figures } = status
  return [
    renderFacts("Gateway", databaseFacts(status, now), screen),
    ...figures === null ? [] : [
      ...tableOf(standingColumns(figures), standingsOf(figures), screen),
      ...tableOf(dueColumns(figures), figures.due, screen),
      ...tableOf(workerColumns(figures), figures.workers, screen)
    ],
    problemLines(problemsOf(status), screen)
  ].join("\n\n")
}
