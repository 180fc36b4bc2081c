/** A run as a picture: the number of operations in each state, and the faults. */
import { type OperationState, operationStates } from "../../../../src/domain/Operation.ts"
import type { Evidence } from "../kit/Evidence.ts"
import type { Sample } from "../kit/Sampler.ts"
import { familyOf } from "./Faults.ts"

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

const unsettled: ReadonlyArray<OperationState> = ["accepted", "submitting", "submitted", "indeterminate"]

const families = {
  process: "worker struck",
  database: "PostgreSQL killed",
  provider: "provider killed",
  network: "network struck"
} as const

const [width, left, right] = [1200, 150, 24]
const breadth = width - left - right

interface Panel {
  readonly title: string
  readonly states: ReadonlyArray<OperationState>
  readonly top: number
  readonly height: number
}

const panels: ReadonlyArray<Panel> = [
  { title: "all operations", states: operationStates, top: 96, height: 260 },
  { title: "operations that are not settled", states: unsettled, top: 400, height: 200 }
]

const rows = { top: 636, height: 24 }
const bottom = rows.top + Object.keys(families).length * rows.height

const text = (x: number, y: number, content: string, attributes = "") =>
  `<text x="${round(x)}" y="${round(y)}" ${attributes}>${content}</text>`

const round = (value: number) => Math.round(value * 10) / 10

/** The step between marks of an axis: 1, 2 or 5 times a power of ten, for about five marks. */
const stepOf = (most: number): number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1) / 5))
  return power * ([1, 2, 5, 10].find((factor) => most / (power * factor) <= 5) ?? 10)
}

const marksOf = (most: number): ReadonlyArray<number> => {
  const step = stepOf(most)
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step)
}

/** One sample for each pixel is enough. */
const thinned = (samples: ReadonlyArray<Sample>): ReadonlyArray<Sample> => {
  const every = Math.ceil(samples.length / breadth)
  return samples.filter((_, index) => index % every === 0 || index === samples.length - 1)
}

const areas = (samples: ReadonlyArray<Sample>, panel: Panel, x: (at: number) => number): string => {
  const { height, states, title, top } = panel
  const sums = samples.map(({ counts }) => {
    let sum = 0
    return [0, ...states.map((state) => sum += counts[state])]
  })
  const most = Math.max(1, ...sums.map((sum) => sum.at(-1)!))
  const y = (value: number) => top + height - value / most * height
  const points = (level: number) => samples.map(({ at }, index) => `${round(x(at))},${round(y(sums[index]![level]!))}`)
  const marks = marksOf(most).map((mark) =>
    `<line x1="${left}" x2="${width - right}" y1="${round(y(mark))}" y2="${round(y(mark))}" class="grid"/>`
    + text(left - 8, y(mark) + 4, mark.toLocaleString("en"), `text-anchor="end"`)
  )
  const shapes = states.map((state, index) =>
    `<polygon fill="${colours[state]}" points="${[...points(index + 1), ...points(index).toReversed()].join(" ")}"/>`
  )
  return [text(left, top - 8, title, `font-weight="bold"`), ...shapes, ...marks].join("\n")
}

const legend = operationStates.map((state, index) => {
  const x = left + index * 132
  return `<rect x="${x}" y="52" width="12" height="12" fill="${colours[state]}"/>${text(x + 18, 62, state)}`
}).join("\n")

const faultRows = ({ injected }: Evidence, x: (at: number) => number): string =>
  Object.entries(families).map(([family, name], index) => {
    const y = rows.top + index * rows.height
    const times = injected.filter(({ fault }) => familyOf(fault) === family)
    const marks = times.map(({ at }) => `M${round(x(at))} ${y + 3}v${rows.height - 6}`).join("")
    return text(left - 8, y + 16, `${name} (${times.length})`, `text-anchor="end"`)
      + `<path d="${marks}" class="fault"/>`
  }).join("\n")

/** The picture as SVG: states over time, faults below, and shaded periods in which the database was down. */
export const plot = (evidence: Evidence): string => {
  const samples = thinned(evidence.samples)
  const start = samples[0]?.at ?? 0
  const seconds = Math.max(1, ((samples.at(-1)?.at ?? start) - start) / 1000)
  const x = (at: number) => left + Math.min(1, Math.max(0, (at - start) / 1000 / seconds)) * breadth
  const outages = evidence.outages.map(({ from, to }) => {
    const span = Math.max(1, x(to) - x(from))
    return `<rect x="${round(x(from))}" y="96" width="${round(span)}" height="${bottom - 96}" class="outage"/>`
  })
  const times = marksOf(seconds).map((mark) =>
    `<line x1="${round(x(start + mark * 1000))}" x2="${round(x(start + mark * 1000))}" y1="${bottom}" y2="${
      bottom + 5
    }" stroke="#333"/>` + text(x(start + mark * 1000), bottom + 20, `${mark} s`, `text-anchor="middle"`)
  )
  const title = `${evidence.acceptances.length.toLocaleString("en")} operations, `
    + `${evidence.injected.length.toLocaleString("en")} faults: operations by state over time`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + 56}" role="img"
  font-family="system-ui, sans-serif" font-size="12" fill="#222">
<title>${title}</title>
<style>.grid { stroke: #222; stroke-opacity: 0.15 } .fault { stroke: #b00020; stroke-opacity: 0.6 }
.outage { fill: #b00020; fill-opacity: 0.12 }</style>
<rect width="100%" height="100%" fill="#fff"/>
${text(left, 30, title, `font-size="18" font-weight="bold"`)}
${legend}
${panels.map((panel) => areas(samples, panel, x)).join("\n")}
${outages.join("\n")}
${text(left, rows.top - 8, "faults (shaded: the database was down)", `font-weight="bold"`)}
${faultRows(evidence, x)}
<line x1="${left}" x2="${width - right}" y1="${bottom}" y2="${bottom}" stroke="#333"/>
${times.join("\n")}
${text(left + breadth / 2, bottom + 42, "time since the first operation", `text-anchor="middle"`)}
</svg>
`
}
