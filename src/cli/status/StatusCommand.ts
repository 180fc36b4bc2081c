/**
 * `status`: shows the state of the ledger on one screen.
 *
 * The room `cli/status`: one screen on the state of the ledger. Read this file first.
 */
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Terminal from "effect/Terminal"
import { formatSkew, warnedSkew } from "../../domain/ClockSkew.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import { isTerminal, type OperationState } from "../../domain/Operation.ts"
import {
  type Condition,
  conditions,
  Figures,
  type FiguresByCondition,
  type LedgerFiguresNow,
  type SeenWorker,
  workerSeenWithin
} from "../../domain/operators/FiguresForm.ts"
import { dueCount, dueWorkTexts, findProblems, isSeen, pausesOf } from "../../domain/operators/findProblems.ts"
import type { Problem } from "../../domain/operators/Problem.ts"
import { shownAfterReport } from "../../domain/operators/workerName.ts"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import { Database } from "../../node/postgres/Database.ts"
import { FiguresPool } from "../../node/postgres/Pools.ts"
import { failureLine } from "../../node/process/failureLine.ts"
import { shellWord, toInvocation, withInvocations } from "../../node/process/Invocation.ts"
import { makeIsMigrated } from "../../services/Migrations.ts"
import { LedgerFigures } from "../../services/operators/LedgerFigures.ts"
import { toggle } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"
import { conditionStyles, formatSpan, type Screen, screenFlags, screenWith, spanBetween } from "../screen/Screen.ts"
import { type Column, type Fact, heading, indented, renderFacts, renderTable } from "../screen/Table.ts"

/** The state of the database that a command found. */
export interface Status {
  readonly embedded: boolean
  readonly migrated: boolean
  /** Null: the database lacks migrations. */
  readonly figures: FiguresByCondition | null
}

/** A problem, and the calls of the program that show more or help. */
interface ShownProblem {
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
      ...tableOf(
        workerColumns(figures),
        figures.workers.filter(({ seen_at }) =>
          figures.at.epochMilliseconds - seen_at.epochMilliseconds < shownAfterReport
        ),
        screen
      )
    ],
    problemLines(problemsOf(status), screen)
  ].join("\n\n")
}

/** Control sequences of ECMA-48, and private ones of xterm that terminals share. */
const control = {
  /** The alternate screen keeps what the terminal showed before. The cursor is hidden. */
  enter: "\u001B[?1049h\u001B[?25l",
  leave: "\u001B[?25h\u001B[?1049l",
  home: "\u001B[H",
  clearRestOfLine: "\u001B[K",
  clearBelow: "\u001B[J"
}

/** The lines that fit the terminal. The last one tells how many more there are. */
const fitting = (lines: ReadonlyArray<string>, rows: number): ReadonlyArray<string> =>
  rows < 1 || lines.length <= rows ? lines : [...lines.slice(0, rows - 1), `… ${lines.length - rows + 1} more lines`]

const toFrame = (text: string, rows: number): string => {
  const lines = fitting(text.split("\n"), rows).map((line) => `${line}${control.clearRestOfLine}`)
  // Over the frame before: clearing the terminal first would flicker.
  return control.home + lines.join("\r\n") + control.clearBelow
}

/** Draws each text of the effect, with a pause between them. The terminal shows its former content again after the interruption. */
const redraw = <E, R>(text: Effect.Effect<string, E, R>, pause: Duration.Input) =>
  Effect.gen(function*() {
    const terminal = yield* Terminal.Terminal
    const draw = Effect.flatMap(
      Effect.all([text, terminal.rows]),
      ([text, rows]) => terminal.display(toFrame(text, rows))
    )
    yield* Effect.acquireUseRelease(
      terminal.display(control.enter),
      () => Effect.repeat(draw, Schedule.spaced(pause)),
      () => Effect.ignore(terminal.display(control.leave))
    )
  })

const encodeFigures = Schema.encodeSync(Figures)

/** The status for programs. `command` is the call as it is typed, or null. */
export const statusForm = (status: Status) => ({
  embedded: status.embedded,
  migrated: status.migrated,
  figures: status.figures === null ? null : encodeFigures(status.figures),
  problems: problemsOf(status)
})

/** What `status` reads with. It neither needs nor applies migrations. */
export const StatusServices = Layer.provideMerge(LedgerFigures.layer, FiguresPool)

/** Makes the read of the status. Without the migrations of this version, the database has no figures. */
const makeReadStatus = Effect.gen(function*() {
  const { isEmbedded: embedded } = yield* Database
  const figures = yield* LedgerFigures
  const isMigrated = yield* makeIsMigrated
  return Effect.gen(function*() {
    const migrated = yield* isMigrated
    return { embedded, migrated, figures: migrated ? yield* figures.nowByCondition : null } satisfies Status
  })
})

const render = (status: Status, color: boolean) =>
  Effect.all([DateTime.now, screenWith({ color })]).pipe(
    Effect.map(([now, screen]) => renderStatus(status, now, screen))
  )

/** The status as a frame. While the database fails, the frame is the error. */
const frameOf = <E, R>(readStatus: Effect.Effect<Status, E, R>, color: boolean) =>
  readStatus.pipe(
    Effect.flatMap((status) => render(status, color)),
    Effect.catch((error) => Effect.succeed(`error: ${failureLine(error)}`))
  )

const watchStatus = Effect.fn(function*<E, R>(readStatus: Effect.Effect<Status, E, R>, color: boolean) {
  if (!process.stdout.isTTY) return yield* new CommandFailed({ message: "--watch needs a terminal" })
  yield* redraw(frameOf(readStatus, color), "2 seconds")
})

export const status = Command.make(
  "status",
  {
    watch: toggle("watch", "Show the status every 2 s until Ctrl-C"),
    ...screenFlags
  },
  Effect.fn(function*({ color, json, watch }) {
    if (json && watch) return yield* new CommandFailed({ message: "specify at most one of --json and --watch" })
    const readStatus = yield* makeReadStatus
    if (watch) return yield* watchStatus(readStatus, color)
    const status = yield* readStatus
    yield* json ? print(statusForm(status)) : Effect.flatMap(render(status, color), Console.log)
  })
).pipe(
  Command.withDescription(
    "Show the state of the ledger: operations by provider and state, due work, workers, and what needs an operator. The exit "
      + "code is 0 unless the command fails, for example because it cannot reach the database: problems do not change it"
  ),
  Command.withShortDescription("Show the state of the ledger on one screen")
)
