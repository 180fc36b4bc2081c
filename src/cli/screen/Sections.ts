/**
 * Sections of labelled facts, and lines of text, for one screen.
 */
import { displayWidth } from "effect/cli/CliOutput"
import { visible } from "../../domain/VisibleText.ts"
import type { Screen, Style } from "./Screen.ts"
import { truncate, wrap } from "./Table.ts"

/** A fact in a section. Its value may take several lines. */
export interface Fact {
  readonly label: string
  readonly value: string
  readonly style?: Style | undefined
}

/** The heading of a section. */
export const heading = (title: string, { paint, width }: Screen): string =>
  paint("bold", width === null ? title : truncate(title, width))

/** The escaped text behind a first indentation. Further lines are indented by blanks of the same width. */
export const indented = (first: string, text: string, { paint, width }: Screen, style?: Style): string => {
  const indent = displayWidth(first)
  const escaped = visible(text)
  const lines = width === null ? [escaped] : wrap(escaped, Math.max(1, width - indent))
  return lines.map((line, at) =>
    `${at === 0 ? first : " ".repeat(indent)}${style === undefined ? line : paint(style, line)}`.trimEnd()
  ).join("\n")
}

/** A section: its title, and a line or more for each fact. */
export const renderFacts = (title: string, facts: ReadonlyArray<Fact>, screen: Screen): string => {
  const labelled = Math.max(...facts.map(({ label }) => displayWidth(label)))
  return [
    heading(title, screen),
    ...facts.map(({ label, style, value }) => indented(`  ${label.padEnd(labelled)}  `, value, screen, style))
  ].join("\n")
}
