import { Chart, type ChartProps } from "./Chart.tsx"
import { lasting, linePath } from "./paths.ts"

/** Series as lines. The dashes of each differ, so that their colours need not tell them apart. */
export const LineChart = (props: ChartProps) => {
  const { grid, series } = props
  return (
    <Chart
      {...props}
      kind="line"
      max={Math.max(...series.flatMap(({ values }) => values))}
      plot={({ end, x, y }) =>
        series.map(({ name, values }) => (
          <g key={name} class={`series series-${name}`}>
            <path class="line" d={linePath(lasting(values.map((value, at) => [x(grid.times[at]!), y(value)]), end))} />
          </g>
        ))}
    />
  )
}
