/** Panels of horizontal bars, one below the other, each with its own axis. */
import { bar, line, picture, text, ticks, widthOf } from "./svg.ts"

export interface Bar {
  readonly label: string
  readonly value: number
  /** The text behind the bar. */
  readonly shown: string
  readonly isFirst: boolean
}

export interface Panel {
  readonly title: string
  /** Of the axis. */
  readonly unit: string
  readonly bars: ReadonlyArray<Bar>
}

const width = 760
const margin = 16
const rowHeight = 24
const barHeight = 16

const drawPanel = ({ bars, title, unit }: Panel, top: number, left: number, right: number) => {
  const values = ticks(Math.max(...bars.map(({ value }) => value)))
  // Of a panel without any value the axis has 0 alone.
  const scale = (right - left) / (values.at(-1)! || 1)
  const firstRow = top + 30
  const bottom = firstRow + bars.length * rowHeight
  const parts = [
    text(margin, top + 14, title, { kind: "title" }),
    ...values.flatMap((value) => [
      line(left + value * scale, firstRow - 4, left + value * scale, bottom),
      text(left + value * scale, bottom + 16, String(value), { anchor: "middle", kind: "small" })
    ]),
    text((left + right) / 2, bottom + 34, unit, { anchor: "middle", kind: "small" }),
    ...bars.flatMap(({ isFirst, label, shown, value }, row) => {
      const y = firstRow + row * rowHeight
      return [
        text(left - 8, y + 13, label, { anchor: "end" }),
        bar(left, y, value * scale, barHeight, isFirst ? "first" : "other"),
        text(left + value * scale + 6, y + 13, shown, { kind: "value" })
      ]
    })
  ]
  return { parts, bottom: bottom + 34 + margin }
}

/** Draws the panels. Labels share a column, as wide as the longest needs. */
export const drawBars = (description: string, panels: ReadonlyArray<Panel>): string => {
  const bars = panels.flatMap((panel) => panel.bars)
  const left = margin + Math.max(...bars.map(({ label }) => widthOf(label))) + 8
  // The longest bar may end at the last tick, with its text behind it.
  const right = width - margin - Math.max(...bars.map(({ shown }) => widthOf(shown))) - 6
  const parts: Array<string> = []
  let top = margin
  for (const panel of panels) {
    const drawn = drawPanel(panel, top, left, right)
    parts.push(...drawn.parts)
    top = drawn.bottom
  }
  return picture(width, top, description, parts)
}
