/**
 * What standard output takes, and lines of text, spans of time and sections of labelled facts for it.
 *
 * The room `cli/screen`: text on terminals. Read this file first.
 */
import * as Flag from "effect/cli/Flag"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { styleText } from "node:util"
import type { OperationState } from "../../domain/Operation.ts"
import type { Condition } from "../../domain/operators/FiguresForm.ts"
import { toggle } from "../Flags.ts"

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
  approval: "yellow",
  held: "yellow",
  unauthorized: "yellow",
  keyless: "yellow",
  unread: "yellow",
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
  json: toggle("json", "Print one JSON document instead of text")
}

const units = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]] as const

/** A span in its two largest units, such as `2h5m`. Shorter than a second, or negative: `0s`. */
export const formatSpan = (milliseconds: number): string => {
  let rest = Math.max(0, Math.floor(milliseconds / 1000))
  const parts = units.map(([unit, seconds]) => {
    const count = Math.floor(rest / seconds)
    rest -= count * seconds
    return { count, unit }
  })
  const first = parts.findIndex(({ count }) => count > 0)
  if (first === -1) return "0s"
  return parts.slice(first, first + 2).filter(({ count }) => count > 0).map(({ count, unit }) => `${count}${unit}`)
    .join("")
}

/** The time from one instant to another. */
export const spanBetween = (from: DateTime.Utc, to: DateTime.Utc): string =>
  formatSpan(to.epochMilliseconds - from.epochMilliseconds)

/** An instant relative to now: `in 12s`, `now` within a second, or `3m ago`. */
export const relativeTo = (now: DateTime.Utc, at: DateTime.Utc): string => {
  const ahead = at.epochMilliseconds - now.epochMilliseconds
  if (Math.abs(ahead) < 1000) return "now"
  return ahead > 0 ? `in ${formatSpan(ahead)}` : `${formatSpan(-ahead)} ago`
}
