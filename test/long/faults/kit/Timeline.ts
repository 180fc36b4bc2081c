/** A run as a picture: a row of bars for each count, with a bar a second, and the faults as shaded bands. */
import { type OperationState, operationStates } from "../../../../src/domain/Operation.ts"
import type { Sample } from "./Evidence.ts"

export interface Row {
  readonly name: string
  readonly colour: string
  /** Values by second since the start. */
  readonly values: ReadonlyMap<number, number>
}

export interface Band {
  readonly from: number
  readonly to: number
  readonly opacity: number
  /** Above the picture. */
  readonly name?: string
  readonly details?: string
}

export interface TimelineOptions {
  readonly title: string
  readonly legend: string
  /** Milliseconds, as in the bands. */
  readonly start: number
  readonly end: number
  readonly rows: ReadonlyArray<Row>
  readonly bands: ReadonlyArray<Band>
}

/** How many of the times are in each second since the start. */
export const perSecond = (times: ReadonlyArray<number>, start: number): ReadonlyMap<number, number> => {
  const counts = new Map<number, number>()
  for (const at of times) {
    const second = Math.floor((at - start) / 1000)
    counts.set(second, (counts.get(second) ?? 0) + 1)
  }
  return counts
}

/** Colours that colour-blind readers can distinguish. */
const colours: Readonly<Record<OperationState, string>> = {
  accepted: "#b8bfc9",
  submitting: "#e69f00",
  submitted: "#56b4e9",
  indeterminate: "#cc5fa0",
  succeeded: "#009e73",
  failed: "#7a4a3a",
  cancelled: "#33373d"
}

/** The operations in each state, by samples of the ledger. */
export const stateRows = (samples: ReadonlyArray<Sample>, start: number): ReadonlyArray<Row> =>
  operationStates.map((state) => ({
    name: state,
    colour: colours[state],
    values: new Map(samples.map(({ at, counts }) => [Math.floor((at - start) / 1000), counts[state]]))
  }))

const [left, right, rowHeight, top] = [130, 24, 64, 200]

const round = (value: number) => Math.round(value * 10) / 10

export const timeline = ({ bands, end, legend, rows, start, title }: TimelineOptions): string => {
  const seconds = Math.max(1, (end - start) / 1000)
  /** Pixels for a second. */
  const scale = Math.max(600 / seconds, Math.min(4, 6000 / seconds))
  const x = (at: number) => round(left + (at - start) / 1000 * scale)
  const bottom = top + rows.length * rowHeight
  const width = round(left + seconds * scale + right)
  const faults = bands.map(({ details, from, name, opacity, to }) =>
    `<g><title>${name ?? ""}: ${details ?? ""}</title><rect x="${x(from)}" y="${top - 8}" width="${
      Math.max(1, round(x(to) - x(from)))
    }" height="${bottom - top + 8}" fill="#b00020" fill-opacity="${opacity}"/>`
    + (name === undefined ? "" : `<text transform="translate(${x(from) + 4} ${top - 12}) rotate(-55)">${name}</text>`)
    + "</g>"
  )
  const bars = rows.map(({ colour, name, values }, index) => {
    // Bursts, such as the last reads of all operations, are cut off.
    const most = [...values.values()].sort((a, b) => a - b)[Math.floor(values.size * 0.95)] || 1
    const base = top + (index + 1) * rowHeight - 8
    const columns = [...values].map(([second, value]) => {
      const height = round(Math.min(1, value / most) * (rowHeight - 16))
      return `M${round(left + second * scale)} ${base}v-${height}h${round(scale)}v${height}z`
    })
    return `<text x="${left - 8}" y="${base - 16}" text-anchor="end">${name}</text>`
      + `<text x="${left - 8}" y="${base - 2}" text-anchor="end" fill="#666">0 to ${most}</text>`
      + `<path d="${columns.join("")}" fill="${colour}"/>`
      + `<line x1="${left}" x2="${width - right}" y1="${base}" y2="${base}" stroke="#333"/>`
  })
  const marks = Array.from({ length: Math.floor(seconds / 30) + 1 }, (_, index) => index * 30).map((second) =>
    `<text x="${round(left + second * scale)}" y="${bottom + 14}" text-anchor="middle">${second} s</text>`
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${bottom + 40}" role="img"
  font-family="system-ui, sans-serif" font-size="12" fill="#222">
<title>${title}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${left}" y="28" font-size="18" font-weight="bold">${title}</text>
<text x="${left}" y="48">${legend}</text>
${[...faults, ...bars, ...marks].join("\n")}
</svg>
`
}
