import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { LineChart } from "../charts/LineChart.tsx"
import { sinceOf } from "../charts/scales.ts"
import { type Grid, gridOf } from "../charts/series.ts"
import { StackedChart } from "../charts/StackedChart.tsx"
import { Panel } from "../parts/Panel.tsx"
import { throughputSeries, unsettledSeries } from "./flowSeries.ts"
import { type Hours, perInterval } from "./ranges.ts"

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
      description="Areas on top of each other, one for each state. The upper edge is the number of all unsettled operations."
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
