import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { Chart, type ChartProps } from "../charts/Chart.tsx"
import { lasting, linePath } from "../charts/paths.ts"
import { sinceOf } from "../charts/scales.ts"
import { enteredIn, type Grid, gridOf, type Series, standingIn } from "../charts/series.ts"
import { StackedChart } from "../charts/StackedChart.tsx"
import { formatName } from "../data/format.ts"
import { Panel } from "../parts/Panel.tsx"
import { type Hours, perInterval } from "./ranges.ts"

type Flow = Overview["flow"]

/** Unsettled states in the order of the lifecycle, from the bottom of the stack. Those that need people are at its top. */
const unsettled = ["accepted", "submitting", "submitted", "indeterminate"]

/** Operations that are not settled, by state. */
const unsettledSeries = (flow: Flow, grid: Grid): ReadonlyArray<Series> =>
  unsettled.map((state) => ({ name: state, label: formatName(state), values: standingIn(flow, grid, state) }))

/** Operations that were accepted, and that ended, in each interval. */
const throughputSeries = (flow: Flow, grid: Grid): ReadonlyArray<Series> =>
  ["accepted", "succeeded", "failed", "cancelled"].map((state) => ({
    name: state,
    label: formatName(state),
    values: enteredIn(flow, grid, [state])
  }))

/** Series as lines. The dashes of each differ, so that their colours need not tell them apart. */
const LineChart = (props: ChartProps) => {
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

const Unsettled = ({ aside, flow, grid, height, name, title }: {
  readonly title: string
  readonly aside: string
  /** Of the plot, for readers who do not see it. */
  readonly name: string
  readonly flow: Overview["flow"]
  readonly grid: Grid
  readonly height: number
}) => (
  <Panel title={title} aside={<span class="secondary">{aside}, UTC</span>}>
    <StackedChart
      title={name}
      description="One area for each state. The upper edge is the number of all unsettled operations."
      grid={grid}
      height={height}
      series={unsettledSeries(flow, grid)}
      unit="operations"
    />
  </Panel>
)

/** Operations by state over time, and throughput, of all providers. Then a plot for each provider, if there are several. */
export const FlowPanels = ({ figures: { at, flow, operations }, hours }: {
  readonly figures: Overview
  readonly hours: Hours
}) => {
  const grid = gridOf(Date.parse(at), Number(hours), flow)
  const since = sinceOf(grid, Number(hours))
  const unit = `operations ${perInterval(hours)}`
  const providers = [...new Set([...flow, ...operations].map(({ provider }) => provider))].sort()
  return (
    <>
      <Unsettled
        title="Unsettled operations"
        aside={`by state${since}`}
        name="Unsettled operations by state"
        flow={flow}
        grid={grid}
        height={190}
      />
      <Panel title="Throughput" aside={<span class="secondary">{unit}{since}, UTC</span>}>
        <LineChart
          title="Throughput"
          description={`One line for accepted operations, and one for each final state, in ${unit}.`}
          grid={grid}
          height={190}
          series={throughputSeries(flow, grid)}
          unit={unit}
        />
      </Panel>
      {providers.length > 1 && providers.map((provider) => (
        <Unsettled
          key={provider}
          title={provider}
          aside="unsettled operations"
          name={`Unsettled operations of ${provider}`}
          flow={flow.filter((point) => point.provider === provider)}
          grid={grid}
          height={140}
        />
      ))}
    </>
  )
}
