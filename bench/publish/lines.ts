/** Lines over a common horizontal axis. */
import { line, path, picture, text, ticks } from "./svg.ts"

interface Series {
  readonly label: string
  readonly points: ReadonlyArray<readonly [x: number, y: number]>
  readonly isFirst: boolean
}

interface Axes {
  readonly x: string
  readonly y: string
}

const width = 760
const left = 64
const right = width - 24
const top = 56
const bottom = 300

/** Draws the series, with a legend above them. */
export const drawLines = (description: string, axes: Axes, series: ReadonlyArray<Series>): string => {
  const points = series.flatMap((one) => one.points)
  const xs = ticks(Math.max(...points.map(([x]) => x)))
  const ys = ticks(Math.max(...points.map(([, y]) => y)))
  const toX = (x: number) => left + (x / xs.at(-1)!) * (right - left)
  const toY = (y: number) => bottom - (y / ys.at(-1)!) * (bottom - top)
  return picture(width, bottom + 56, description, [
    ...series.flatMap(({ isFirst, label }, index) => {
      const x = left + index * 240
      return [line(x, 20, x + 24, 20, isFirst ? "line-first" : "line-other"), text(x + 32, 24, label)]
    }),
    text(left, top - 12, axes.y, { kind: "small" }),
    ...ys.flatMap((y) => [
      line(left, toY(y), right, toY(y)),
      text(left - 8, toY(y) + 4, String(y), { anchor: "end", kind: "small" })
    ]),
    ...xs.map((x) => text(toX(x), bottom + 20, String(x), { anchor: "middle", kind: "small" })),
    text((left + right) / 2, bottom + 42, axes.x, { anchor: "middle", kind: "small" }),
    ...series.map((one) =>
      path(one.points.map(([x, y]) => [toX(x), toY(y)]), one.isFirst ? "line-first" : "line-other")
    )
  ])
}
