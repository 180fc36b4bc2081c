import { Chart, type ChartProps } from "./Chart.tsx"
import { areaPath, lasting, type Point, stepPath } from "./paths.ts"
import { Patterns, textures } from "./Patterns.tsx"
import type { Scales } from "./scales.ts"
import { type Series, stacked } from "./series.ts"

const Layer = ({ end, id, lower, name, times, upper, x, y }: Pick<Scales, "end" | "x" | "y"> & {
  readonly id: string
  readonly name: string
  readonly times: ReadonlyArray<number>
  readonly lower: ReadonlyArray<number>
  readonly upper: ReadonlyArray<number>
}) => {
  const points = (values: ReadonlyArray<number>) =>
    lasting(values.map((value, at): Point => [x(times[at]!), y(value)]), end)
  const shape = areaPath(points(upper), points(lower))
  return (
    <g class={`series series-${name}`}>
      <path class="area" d={shape} />
      {textures.includes(name) && <path d={shape} fill={`url(#${id}-${name})`} />}
      <path class="edge" d={stepPath(points(upper))} />
    </g>
  )
}

/** Series on top of each other: their sum is the upper edge. */
export const StackedChart = (props: ChartProps) => {
  const { grid, series } = props
  const edges = stacked(series)
  return (
    <Chart
      {...props}
      kind="area"
      max={Math.max(...edges.at(-1)!)}
      plot={(scales, id) => (
        <>
          <Patterns id={id} />
          {series.map(({ name }: Series, at) => (
            <Layer
              key={name}
              id={id}
              name={name}
              times={grid.times}
              lower={edges[at]!}
              upper={edges[at + 1]!}
              {...scales}
            />
          ))}
        </>
      )}
    />
  )
}
