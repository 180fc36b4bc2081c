/**
 * Draws on the whole terminal until the program is interrupted.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Terminal from "effect/Terminal"

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
export const redraw = <E, R>(text: Effect.Effect<string, E, R>, pause: Duration.Input) =>
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
