import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { useResource } from "../data/resource.ts"
import { ConditionsPanel } from "../overview/ConditionsPanel.tsx"
import { EmptyLedger } from "../overview/EmptyLedger.tsx"
import { FlowPanels } from "../overview/FlowPanels.tsx"
import { ProblemsPanel } from "../overview/ProblemsPanel.tsx"
import { RangePicker } from "../overview/RangePicker.tsx"
import { type Hours, ranges } from "../overview/ranges.ts"
import { WorkersPanel } from "../overview/WorkersPanel.tsx"
import { Loaded } from "../parts/Loaded.tsx"
import { usePageTitle } from "./usePageTitle.ts"

/** Milliseconds between two reads that changes cause. A busy ledger changes all the time, and people read no faster. */
const gap = 2000

/** Milliseconds after which the page reads again by itself: ages, and workers that are no longer seen, change nothing in the ledger. */
const every = 15_000

const Contents = ({ figures, hours }: { readonly figures: Overview; readonly hours: Hours }) => (
  <>
    {figures.operations.length === 0 ? <EmptyLedger /> : (
      <>
        <ProblemsPanel figures={figures} />
        <ConditionsPanel figures={figures} />
      </>
    )}
    <WorkersPanel workers={figures.workers} at={figures.at} />
    {figures.operations.length > 0 && (
      <div class="halves">
        <FlowPanels figures={figures} hours={hours} />
      </div>
    )}
  </>
)

/** What needs people, how many operations are where, and how it went. */
export const OverviewPage = ({ hours: given }: { readonly hours: string }) => {
  usePageTitle("Overview")
  const hours = ranges.find((range) => range.hours === given)?.hours ?? "3"
  const overview = useResource<Overview>(`/overview?hours=${hours}`, { gap, every })
  return (
    <div class="page">
      <div class="page-head">
        <h1>Overview</h1>
        <RangePicker current={hours} />
      </div>
      <Loaded resource={overview}>{(figures) => <Contents figures={figures} hours={hours} />}</Loaded>
    </div>
  )
}
