import type { ComponentChildren } from "preact"
import { useId, useRef, useState } from "preact/hooks"
import { Axes } from "./Axes.tsx"
import { ChartTable } from "./ChartTable.tsx"
import { type Kind, Legend } from "./Legend.tsx"
import { formatMoment, type Scales, scalesOf } from "./scales.ts"
import type { Grid, Series } from "./series.ts"
import { useWidth } from "./useWidth.ts"

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
