/** A run as a picture: when reads, acceptances and submissions succeeded, and the faults. */
import { type Run, successes } from "./Report.ts"

const [left, right, rowHeight, top] = [110, 24, 64, 200]

/** Pixels for a second. */
const scale = 4

/** Seconds in one column of a bar chart. */
const step = 1

const round = (value: number) => Math.round(value * 10) / 10

const colours = { reads: "#56b4e9", accepts: "#e69f00", sends: "#009e73" } as const

/** The picture as SVG: a bar for each second. Shaded: from the fault until it was healed, and lighter until the cluster was whole. */
export const plot = (run: Run): string => {
  const { facts, history } = run
  const start = history[0]?.from ?? facts.clock.monotonic
  const end = history.reduce((latest, { to }) => Math.max(latest, to), start)
  const breadth = Math.max(600, (end - start) / 1000 * scale)
  const x = (at: number) => round(left + (at - start) / 1000 * scale)
  const bottom = top + 3 * rowHeight
  const faults = facts.faults.map(({ details, from, healed, name, whole }, index) => {
    const band = (until: number, opacity: number) =>
      `<rect x="${x(from)}" y="${top - 8}" width="${round(x(until) - x(from))}" height="${
        bottom - top + 8
      }" fill="#b00020" fill-opacity="${opacity}"/>`
    return `<g><title>${index + 1}. ${name}: ${details}</title>${band(whole, 0.08)}${band(healed, 0.14)}`
      + `<text transform="translate(${x(from) + 4} ${top - 12}) rotate(-55)">${name}</text></g>`
  })
  const rows = Object.entries(successes(run)).map(([name, times], index) => {
    const counts = new Map<number, number>()
    for (const at of times) {
      const column = Math.floor((at - start) / 1000 / step)
      counts.set(column, (counts.get(column) ?? 0) + 1)
    }
    // Bursts, such as the last reads of all operations, are cut off.
    const most = [...counts.values()].sort((a, b) => a - b)[Math.floor(counts.size * 0.95)] ?? 1
    const base = top + (index + 1) * rowHeight - 8
    const bars = [...counts].map(([column, count]) => {
      const height = round(Math.min(1, count / most) * (rowHeight - 16))
      return `M${round(left + column * step * scale)} ${base}v-${height}h${step * scale}v${height}z`
    })
    return `<text x="${left - 8}" y="${base - 16}" text-anchor="end">${name}</text>`
      + `<text x="${left - 8}" y="${base - 2}" text-anchor="end" fill="#666">0 to ${most} /s</text>`
      + `<path d="${bars.join("")}" fill="${colours[name as keyof typeof colours]}"/>`
      + `<line x1="${left}" x2="${left + breadth}" y1="${base}" y2="${base}" stroke="#333"/>`
  })
  const marks = Array.from({ length: Math.floor(breadth / scale / 30) + 1 }, (_, index) => index * 30).map((second) =>
    `<text x="${left + second * scale}" y="${bottom + 14}" text-anchor="middle">${second} s</text>`
  )
  const title = `${facts.faults.length} faults on a cluster of three: what succeeded in each second`
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${round(left + breadth + right)}" height="${
    bottom + 40
  }" role="img"
  font-family="system-ui, sans-serif" font-size="12" fill="#222">
<title>${title}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${left}" y="28" font-size="18" font-weight="bold">${title}</text>
<text x="${left}" y="48">Dark shade: the fault lasts. Light shade: until the cluster was whole and all clients were served.</text>
${faults.join("\n")}
${rows.join("\n")}
${marks.join("\n")}
</svg>
`
}
