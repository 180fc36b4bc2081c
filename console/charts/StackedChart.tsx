import { area, curveStepAfter, line, stack } from "d3-shape"
import { Chart, type ChartProps } from "./Chart.tsx"
import { Patterns } from "./Patterns.tsx"

/** Series on top of each other: their sum is the upper edge. */
export const StackedChart = (props: ChartProps) => {
  const { grid, series } = props
  const indexes = grid.times.map((_, index) => index)
  const layers = stack<number, number>()
    .keys(series.map((_, at) => at))
    .value((index, at) => series[at]!.values[index]!)(indexes)
  const max = Math.max(...layers.flatMap((layer) => layer.map(([, top]) => top)))
  return (
    <Chart
      {...props}
      max={max}
      plot={({ id, scales: { x, y } }) => (
        <>
          <Patterns id={id} />
          {layers.map((layer) => {
            const { name } = series[layer.key]!
            const edge = line<[number, number]>((_, at) => x(grid.times[at]!), ([, top]) => y(top)).curve(
              curveStepAfter
            )
            const shape = area<[number, number]>((_, at) => x(grid.times[at]!), ([low]) => y(low), ([, top]) => y(top))
              .curve(curveStepAfter)
            const points = layer.map(([low, top]): [number, number] => [low, top])
            return (
              <g key={name} class={`series series-${name}`}>
                <path class="area" d={shape(points) ?? ""} />
                {(name === "submitting" || name === "indeterminate") && (
                  <path class="texture" d={shape(points) ?? ""} fill={`url(#${id}-${name})`} />
                )}
                <path class="edge" d={edge(points) ?? ""} />
              </g>
            )
          })}
        </>
      )}
    />
  )
}
