/**
 * What standard output takes: how wide its lines may be, and whether it shows styles.
 */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { styleText } from "node:util"
import type { OperationState } from "../../domain/Operation.ts"
import type { Condition } from "../../domain/operators/FiguresForm.ts"

/** A style of `node:util`. Styles only repeat what the text says. */
export type Style = "bold" | "cyan" | "gray" | "green" | "red" | "yellow"

/** Puts the escape codes of a style around a text, if the output takes them. */
export type Paint = (style: Style, text: string) => string

/** The styles of states and conditions, the same in all commands. */
export const conditionStyles: Readonly<Record<OperationState | Condition, Style | undefined>> = {
  accepted: undefined,
  submitting: "cyan",
  submitted: "cyan",
  indeterminate: "yellow",
  succeeded: "green",
  failed: "red",
  cancelled: "gray",
  held: "yellow",
  under_review: "yellow"
}

export interface Screen {
  /** Columns of the terminal. Null: the output is no terminal, so lines have any width. */
  readonly width: number | null
  readonly paint: Paint
}

/** Adds no escape codes. */
export const plain: Paint = (_, text) => text

/** Adds the escape codes if standard output is a terminal that shows them. Obeys NO_COLOR and FORCE_COLOR. */
const painted: Paint = (style, text) => styleText(style, text, { stream: process.stdout })

/** Columns of the terminal; null if standard output is none, or does not tell its size. */
const terminalWidth = (): number | null =>
  process.stdout.isTTY && process.stdout.columns > 0 ? process.stdout.columns : null

/** Standard output as it is now. The size of a terminal may change. */
export const screenWith = ({ color }: { readonly color: boolean }): Effect.Effect<Screen> =>
  Effect.sync(() => ({ width: terminalWidth(), paint: color ? painted : plain }))

/** Whether to show styles, and whether to print JSON instead of text. */
export const screenFlags = {
  color: Flag.Boolean("color").pipe(
    Flag.withDescription("Colors where the terminal shows them; --no-color or NO_COLOR turns them off"),
    Flag.withDefault(true)
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print one JSON document instead of text"),
    Flag.withDefault(false)
  )
}
