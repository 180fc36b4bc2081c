import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { gridOf } from "../charts/series.ts"
import { StackedChart } from "../charts/StackedChart.tsx"
import { Panel } from "../parts/Panel.tsx"
import { unsettledSeries } from "./flowSeries.ts"
import type { Hours } from "./ranges.ts"

/** A plot for each provider, if there are several. */
export const ProviderPanels = ({ figures: { at, flow, operations }, hours }: {
  readonly figures: Overview
  readonly hours: Hours
}) => {
  const grid = gridOf(Date.parse(at), Number(hours), flow)
  const providers = [...new Set([...flow, ...operations].map(({ provider }) => provider))].sort()
  return (
    <>
      {providers.length > 1 &&
        providers.map((provider) => (
          <Panel key={provider} title={provider} aside={<span class="secondary">unsettled operations, UTC</span>}>
            <StackedChart
              title={`Unsettled operations of ${provider}`}
              description="Areas on top of each other, one for each state."
              grid={grid}
              height={140}
              series={unsettledSeries(
                flow.filter((point) =>
                  point.provider === provider
                ),
                grid
              )}
              unit="operations"
            />
          </Panel>
        ))}
    </>
  )
}
