/**
 * Tables, sections of labelled facts and lines of text that fit a terminal. Every text is escaped, because values from outside may hold control
 * characters.
 */
import { displayWidth } from "effect/cli/CliOutput"
import { visible } from "../../domain/VisibleText.ts"
import type { Paint, Screen, Style } from "./Screen.ts"

export interface Cell {
  readonly text: string
  readonly style?: Style | undefined
}

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => Cell
  /** The width to which the column may shrink. Absent: it never shrinks. */
  readonly least?: number
  readonly align?: "right"
}

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** The beginning of the text that fits `width` columns. */
const headOf = (text: string, width: number): string => {
  let head = ""
  let used = 0
  for (const { segment } of graphemes.segment(text)) {
    used += displayWidth(segment)
    if (used > width) break
    head += segment
  }
  return head
}

/** Cuts a text to `width` columns. An ellipsis shows the cut. */
export const truncate = (text: string, width: number): string =>
  displayWidth(text) <= width ? text : width < 1 ? "" : `${headOf(text, width - 1)}…`

/** Breaks a text into lines of `width` columns at most, after a space where there is one. A wider character has its own line. */
export const wrap = (text: string, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let line = ""
  let used = 0
  for (const { segment } of graphemes.segment(text)) {
    const columns = displayWidth(segment)
    while (line !== "" && used + columns > width) {
      const space = segment === " " ? -1 : line.lastIndexOf(" ")
      const cut = space > 0 ? space + 1 : line.length
      lines.push(line.slice(0, cut).trimEnd())
      line = line.slice(cut)
      used = displayWidth(line)
    }
    if (line === "" && segment === " " && lines.length > 0) continue
    line += segment
    used += columns
  }
  return [...lines, line]
}

const pad = (text: string, width: number, align?: "right"): string => {
  const blank = " ".repeat(Math.max(0, width - displayWidth(text)))
  return align === "right" ? blank + text : text + blank
}

const visibleCell = ({ style, text }: Cell): Cell => ({ style, text: visible(text) })

const painted = (paint: Paint, style: Style | undefined, text: string): string =>
  style === undefined ? text : paint(style, text)

const total = (widths: ReadonlyArray<number>, gap: number): number =>
  widths.reduce((sum, width) => sum + width, gap * (widths.length - 1))

/** Shrinks the column with the most to spare, column by column, until the table fits. Null: it cannot fit. */
const shrink = (
  natural: ReadonlyArray<number>,
  least: ReadonlyArray<number>,
  width: number
): ReadonlyArray<number> | null => {
  const floor = natural.map((columns, at) => Math.min(columns, least[at]!))
  if (total(floor, 1) > width) return null
  const widths = [...natural]
  while (total(widths, 1) > width) {
    const spare = widths.map((columns, at) => columns - floor[at]!)
    widths[spare.indexOf(Math.max(...spare))]! -= 1
  }
  return widths
}

/** Each row as lines of `title value`, with nothing cut. psql does the same with tables that are too wide. */
const renderBlocks = (
  titles: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
  width: number,
  paint: Paint
): string => {
  const titled = Math.max(...titles.map(displayWidth))
  const line = (title: string, { style, text }: Cell) => {
    const head = paint("bold", truncate(pad(title, titled), width))
    return wrap(text, Math.max(1, width - titled - 1)).map((part, at) =>
      `${at === 0 ? head : " ".repeat(titled)} ${painted(paint, style, part)}`.trimEnd()
    ).join("\n")
  }
  return rows.map((row) => row.map((cell, at) => line(titles[at]!, cell)).join("\n")).join("\n\n")
}

/**
 * A table with a line for each row. If it is wider than the screen, its columns shrink to their least widths. If that does not
 * help, each row becomes a block with a line for each column.
 */
export const renderTable = <Row>(
  columns: ReadonlyArray<Column<Row>>,
  rows: ReadonlyArray<Row>,
  { paint, width }: Screen
): string => {
  const titles = columns.map(({ title }) => title)
  const cells = rows.map((row) => columns.map(({ cell }) => visibleCell(cell(row))))
  const natural = titles.map((title, at) =>
    Math.max(...[title, ...cells.map((row) => row[at]!.text)].map(displayWidth))
  )
  const fits = width === null || total(natural, 2) <= width
  const widths = fits ? natural : shrink(natural, columns.map(({ least }, at) => least ?? natural[at]!), width)
  if (widths === null) return renderBlocks(titles, cells, width ?? 0, paint)
  const padded = (cell: Cell, at: number) => {
    const cut = truncate(cell.text, widths[at]!)
    const isLast = at === widths.length - 1
    const { align } = columns[at]!
    return painted(paint, cell.style, isLast && align === undefined ? cut : pad(cut, widths[at]!, align))
  }
  const line = (row: ReadonlyArray<Cell>) => row.map(padded).join(fits ? "  " : " ").trimEnd()
  return [titles.map((text): Cell => ({ text, style: "bold" })), ...cells].map(line).join("\n")
}

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
