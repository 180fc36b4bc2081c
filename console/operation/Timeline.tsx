import { moveOfDeadline } from "../../src/domain/operators/recordTexts.ts"
import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatDuration, formatInstant } from "../data/format.ts"
import { Evidence, isEvidence } from "../parts/Evidence.tsx"
import { StateBadge } from "../parts/OperationBadges.tsx"
import { Panel } from "../parts/Panel.tsx"
import { Time } from "../parts/Time.tsx"

type Entry = Detail["history"][number]

const timeOf = ({ at }: Pick<Entry, "at">, before: Entry | undefined): string =>
  before === undefined
    ? formatInstant(at)
    : `${formatInstant(at)} · ${formatDuration(Date.parse(at) - Date.parse(before.at))} later`

/** The acceptance and each transition, the oldest first, and the proof of another outcome, with the evidence that the ledger recorded. */
export const Timeline = ({ detail: { history, operation, reversal } }: { readonly detail: Detail }) => (
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
          {moveOfDeadline(entry) !== null && <p class="secondary">{moveOfDeadline(entry)}</p>}
        </li>
      ))}
      {reversal !== null && (
        <li class="step step-failed">
          <div class="step-head">
            <span class="badge badge-refused">Contradicted</span>
            <span class="secondary">
              <Time at={reversal.at} />
            </span>
          </div>
          <p class="secondary instant">{timeOf(reversal, history.at(-1))} · the state stays {operation.state}</p>
          <Evidence title="Evidence of the provider" value={reversal.evidence} />
        </li>
      )}
    </ol>
  </Panel>
)
