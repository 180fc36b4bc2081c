/** The parts of a plot as SVG. Its colours follow the reader's light or dark mode. */

const style = `
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .small { font-size: 12px; fill: #59636e }
  .value { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
  .background { fill: #ffffff }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .first { fill: #0969da }
  .other { fill: #afb8c1 }
  .line-first { fill: none; stroke: #0969da; stroke-width: 2 }
  .line-other { fill: none; stroke: #8c959f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .value { stroke: #0d1117 }
    .background { fill: #0d1117 }
    .grid { stroke: #3d444d }
    .first { fill: #4493f8 }
    .other { fill: #656c76 }
    .line-first { stroke: #4493f8 }
    .line-other { stroke: #9198a1 }
  }
`

const escape = (content: string) =>
  content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\"", "&quot;")

/** Coordinates with at most one decimal. */
const at = (value: number) => String(Math.round(value * 10) / 10)

/** An upper bound of the width of a text of 13 px. */
export const widthOf = (content: string): number => Math.ceil(content.length * 7.4)

export const text = (
  x: number,
  y: number,
  content: string,
  { anchor = "start", kind = "" }: { readonly anchor?: "start" | "middle" | "end"; readonly kind?: string } = {}
): string => `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}" class="${kind}">${escape(content)}</text>`

export const bar = (x: number, y: number, width: number, height: number, kind: string): string =>
  `<rect x="${at(x)}" y="${at(y)}" width="${at(width)}" height="${at(height)}" rx="2" class="${kind}"/>`

export const line = (x1: number, y1: number, x2: number, y2: number, kind = "grid"): string =>
  `<line x1="${at(x1)}" y1="${at(y1)}" x2="${at(x2)}" y2="${at(y2)}" class="${kind}"/>`

export const path = (points: ReadonlyArray<readonly [x: number, y: number]>, kind: string): string =>
  `<polyline points="${points.map(([x, y]) => `${at(x)},${at(y)}`).join(" ")}" class="${kind}"/>`

/** A whole picture. The description is for readers who do not see it. */
export const picture = (
  width: number,
  height: number,
  description: string,
  parts: ReadonlyArray<string>
): string =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${Math.ceil(height)}" width="${width}" role="img">`,
    `<title>${escape(description)}</title>`,
    `<style>${style}</style>`,
    `<rect width="${width}" height="${Math.ceil(height)}" class="background"/>`,
    ...parts,
    "</svg>",
    ""
  ].join("\n")

/** Round values from 0 to at least `most`, four to eight of them. */
export const ticks = (most: number): ReadonlyArray<number> => {
  const rough = (most || 1) / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough)!
  // Multiplied, because sums of decimal fractions are not round.
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => Number((index * step).toPrecision(6)))
}
