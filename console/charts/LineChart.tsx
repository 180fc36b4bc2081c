import { curveMonotoneX, line } from "d3-shape"
import { Chart, type ChartProps } from "./Chart.tsx"

/** Series as lines. The dashes of each differ, so that their colours need not tell them apart. */
export const LineChart = (props: ChartProps) => {
  const { grid, series } = props
  const max = Math.max(...series.flatMap(({ values }) => values))
  return (
    <Chart
      {...props}
      max={max}
      plot={({ scales: { x, y } }) =>
        series.map(({ name, values }) => (
          <g key={name} class={`series series-${name}`}>
            <path
              class="line"
              d={line<number>((_, at) => x(grid.times[at]!), (value) => y(value)).curve(curveMonotoneX)([...values]) ??
                ""}
            />
          </g>
        ))}
    />
  )
}
