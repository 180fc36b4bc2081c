import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatDuration, formatInstant } from "../data/format.ts"
import { Evidence, isEvidence } from "../parts/Evidence.tsx"
import { Panel } from "../parts/Panel.tsx"
import { StateBadge } from "../parts/StateBadge.tsx"
import { Time } from "../parts/Time.tsx"

type Entry = Detail["history"][number]

const timeOf = ({ at }: Entry, before: Entry | undefined): string =>
  before === undefined
    ? formatInstant(at)
    : `${formatInstant(at)} · ${formatDuration(Date.parse(at) - Date.parse(before.at))} later`

/** The acceptance and each transition, the oldest first, with the evidence that the ledger recorded. */
export const Timeline = ({ history }: { readonly history: ReadonlyArray<Entry> }) => (
  <Panel title="Timeline">
    <ol class="timeline">
      {history.map((entry, at) => (
        <li key={entry.revision} class={`step step-${entry.to}`}>
          <div class="step-head">
            <StateBadge state={entry.to} />
            <span class="secondary">
              <Time at={entry.at} />
            </span>
          </div>
          <p class="secondary instant">{timeOf(entry, history[at - 1])} · revision {entry.revision}</p>
          {isEvidence(entry.evidence) && (
            <Evidence title={`Evidence of revision ${entry.revision}`} value={entry.evidence} />
          )}
        </li>
      ))}
    </ol>
  </Panel>
)
