import type { ComponentChildren, RefObject } from "preact"
import { useEffect, useId, useRef, useState } from "preact/hooks"
import { formatCount } from "../data/format.ts"
import { Patterns, textures } from "./Patterns.tsx"
import { anchorOf, formatMoment, formatTick, margin, type Scales, scalesOf } from "./scales.ts"
import { type Grid, sampled, type Series } from "./series.ts"

/** How a plot draws its series. */
export type Kind = "area" | "line"

const Swatch = ({ id, kind, name }: { readonly id: string; readonly kind: Kind; readonly name: string }) => (
  <svg class={`series-${name}`} viewBox="0 0 16 12" width="16" height="12" aria-hidden="true">
    {kind === "area" && (
      <>
        <Patterns id={`${id}-legend`} />
        <rect width="16" height="12" rx="2" class="area" />
        {textures.includes(name) && <rect width="16" height="12" rx="2" fill={`url(#${id}-legend-${name})`} />}
      </>
    )}
    {kind === "line" && <line x1="0" x2="16" y1="6" y2="6" class="line" />}
  </svg>
)

/** Names of the series, with their values now or at the cursor. */
const Legend = ({ at, id, kind, series }: {
  readonly series: ReadonlyArray<Series>
  readonly at: number
  readonly kind: Kind
  readonly id: string
}) => (
  <div class="legend">
    {series.map(({ label, name, values }) => (
      <span key={name} class="legend-entry">
        <Swatch name={name} kind={kind} id={id} />
        {label} <b>{formatCount(values[at] ?? 0)}</b>
      </span>
    ))}
  </div>
)

/** The values of a plot as a table, at some of its times. */
const ChartTable = ({ grid, series, title, unit }: {
  readonly title: string
  readonly unit: string
  readonly grid: Grid
  readonly series: ReadonlyArray<Series>
}) => (
  <details class="chart-table">
    <summary>
      Values as a table<span class="visually-hidden">: {title}</span>
    </summary>
    <div class="scroll" tabIndex={0} role="region" aria-label={`${title}: values`}>
      <table>
        <caption class="visually-hidden">{title}, {unit}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ label, name }) => <th key={name} scope="col" class="number">{label}</th>)}
          </tr>
        </thead>
        <tbody>
          {sampled(grid).map((index) => (
            <tr key={index}>
              <th scope="row">{formatMoment(grid.times[index]!)}</th>
              {series.map(({ name, values }) => <td key={name} class="number">{formatCount(values[index] ?? 0)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </details>
)

/** Lines and labels behind the plot. */
const Axes = ({ grid, scales, scales: { columns, rows, x, y }, width }: {
  readonly grid: Grid
  readonly scales: Scales
  readonly width: number
}) => (
  <g class="axes">
    {rows.map((value) => (
      <g key={value}>
        <line x1={margin.left} x2={width - margin.right} y1={y(value)} y2={y(value)} />
        <text x={margin.left - 8} y={y(value)} dy="0.32em" text-anchor="end">{formatCount(value)}</text>
      </g>
    ))}
    {columns.map((time) => (
      <text key={time} x={x(time)} y={y(0) + 16} text-anchor={anchorOf(x(time), scales)}>{formatTick(grid, time)}</text>
    ))}
  </g>
)

/** The width of the element in CSS pixels, as it changes. 0 before it is known. */
const useWidth = (element: RefObject<HTMLElement | null>): number => {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)))
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return width
}

export interface ChartProps {
  readonly title: string
  /** What the plot shows, for readers who do not see it. */
  readonly description: string
  readonly grid: Grid
  readonly series: ReadonlyArray<Series>
  readonly height: number
  /** What the values count, such as `operations per minute`. */
  readonly unit: string
}

/** The frame of a plot: axes, a cursor by pointer or keyboard, a legend with the values at the cursor, and a table of the values. */
export const Chart = ({ description, grid, height, kind, max, plot, series, title, unit }: ChartProps & {
  readonly kind: Kind
  readonly max: number
  readonly plot: (scales: Scales, id: string) => ComponentChildren
}) => {
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame)
  const id = useId()
  const [cursor, setCursor] = useState<number | null>(null)
  const last = grid.times.length - 1
  const at = cursor === null ? last : Math.min(cursor, last)
  const scales = scalesOf(grid, max, width, height)
  const follow = (event: PointerEvent) => {
    setCursor(scales.indexAt(event.clientX - frame.current!.getBoundingClientRect().left))
  }
  const values = series.map(({ label, values }) => `${label} ${values[at]}`).join(", ")
  return (
    <figure class="chart">
      <Legend id={id} kind={kind} series={series} at={at} />
      <div class="plot" ref={frame} onPointerMove={follow} onPointerLeave={() => setCursor(null)}>
        {width > 0 && (
          <svg width={width} height={height} role="img" aria-labelledby={`${id}-title ${id}-desc`}>
            <title id={`${id}-title`}>{title}</title>
            <desc id={`${id}-desc`}>{description}</desc>
            <Axes grid={grid} scales={scales} width={width} />
            {plot(scales, id)}
            {cursor !== null && (
              <line
                class="cursor"
                x1={scales.x(grid.times[at]!)}
                x2={scales.x(grid.times[at]!)}
                y1={8}
                y2={height - 22}
              />
            )}
          </svg>
        )}
        <input
          type="range"
          class="plot-cursor"
          min={0}
          max={last}
          value={at}
          aria-label={`${title}: time`}
          aria-valuetext={`${formatMoment(grid.times[at]!)}: ${values}`}
          onInput={(event) => setCursor(event.currentTarget.valueAsNumber)}
          onBlur={() => setCursor(null)}
        />
      </div>
      <div class="chart-foot">
        <ChartTable title={title} grid={grid} series={series} unit={unit} />
        <span class="moment">{cursor === null ? "Now" : formatMoment(grid.times[at]!)}</span>
      </div>
    </figure>
  )
}
