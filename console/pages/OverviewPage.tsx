import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { useResource } from "../data/resource.ts"
import { to } from "../data/route.ts"
import { ConditionsPanel } from "../overview/ConditionsPanel.tsx"
import { FlowPanels } from "../overview/FlowPanels.tsx"
import { ProblemsPanel } from "../overview/ProblemsPanel.tsx"
import { type Hours, ranges } from "../overview/ranges.ts"
import { WorkersPanel } from "../overview/WorkersPanel.tsx"
import { Empty } from "../parts/Empty.tsx"
import { Loaded } from "../parts/Loaded.tsx"
import { usePageTitle } from "./usePageTitle.ts"

/** Chooses how far back the plots reach. */
const RangePicker = ({ current }: { readonly current: Hours }) => (
  <nav class="segments" aria-label="Range of the plots">
    {ranges.map(({ hours, label }) => (
      <a key={hours} href={to([], { hours })} aria-current={hours === current ? "true" : undefined}>{label}</a>
    ))}
  </nav>
)

/** For a ledger without any operation. */
const EmptyLedger = () => (
  <Empty title="The ledger has no operation yet">
    Accepted operations appear here.
  </Empty>
)

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
