/**
 * `status`: shows the state of the ledger on one screen.
 *
 * The room `status`: one screen on the state of the ledger. Read this file first.
 */
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Terminal from "effect/Terminal"
import { Figures } from "../../domain/operators/FiguresForm.ts"
import { Database } from "../../node/postgres/Database.ts"
import { FiguresPool } from "../../node/postgres/Pools.ts"
import { failureLine } from "../../node/process/failureLine.ts"
import { makeIsMigrated } from "../../services/Migrations.ts"
import { LedgerFigures } from "../../services/operators/LedgerFigures.ts"
import { toggle } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"
import { screenFlags, screenWith } from "../screen/Screen.ts"
import { problemsOf, renderStatus, type Status } from "./renderStatus.ts"

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
