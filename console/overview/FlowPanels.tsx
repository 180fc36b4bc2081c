import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { LineChart } from "../charts/LineChart.tsx"
import { sinceOf } from "../charts/scales.ts"
import { gridOf } from "../charts/series.ts"
import { StackedChart } from "../charts/StackedChart.tsx"
import { Panel } from "../parts/Panel.tsx"
import { throughputSeries, unsettledSeries } from "./flowSeries.ts"
import { type Hours, perInterval } from "./ranges.ts"

/** Operations by state over time, and throughput, of all providers. */
export const FlowPanels = ({ figures: { at, flow }, hours }: { readonly figures: Overview; readonly hours: Hours }) => {
  const grid = gridOf(Date.parse(at), Number(hours), flow)
  const since = sinceOf(grid, Number(hours))
  return (
    <>
      <Panel title="Unsettled operations" aside={<span class="secondary">by state{since}, UTC</span>}>
        <StackedChart
          title="Unsettled operations by state"
          description="Areas on top of each other, one for each state. The upper edge is the number of all unsettled operations."
          grid={grid}
          series={unsettledSeries(flow, grid)}
          unit="operations"
        />
      </Panel>
      <Panel title="Throughput" aside={<span class="secondary">operations {perInterval(hours)}{since}, UTC</span>}>
        <LineChart
          title="Throughput"
          description={`One line for accepted operations, and one for each final state, in operations ${
            perInterval(hours)
          }.`}
          grid={grid}
          series={throughputSeries(flow, grid)}
          unit={`operations ${perInterval(hours)}`}
        />
      </Panel>
    </>
  )
}
