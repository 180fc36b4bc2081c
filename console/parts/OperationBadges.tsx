import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { formatName } from "../data/format.ts"

type State = Summary["operation"]["state"]

/** A shape for each state, so that no state is told by its colour alone. */
const shapes: Readonly<Record<State, string>> = {
  accepted: "M6 1.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 1 0 0-8.4",
  submitting: "M1.5 6h8M6.3 2.6 9.8 6 6.3 9.4",
  submitted: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M6 3.6V6l1.7 1",
  indeterminate: "M6 1 11 6 6 11 1 6zM6 3.8v2.6M6 8.1v.1",
  succeeded: "M2 6.4 4.8 9.2 10 3.4",
  failed: "M2.6 2.6l6.8 6.8M9.4 2.6 2.6 9.4",
  cancelled: "M2 6h8"
}

/** The state of an operation: its shape, its colour and its name. */
export const StateBadge = ({ state }: { readonly state: State }) => (
  <span class={`badge state-${state}`}>
    <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={shapes[state]} />
    </svg>
    {formatName(state)}
  </span>
)

/** State, and what is unusual about the operation. */
export const OperationBadges = ({ summary: { operation, schedule } }: { readonly summary: Summary }) => (
  <span class="badges">
    <StateBadge state={operation.state} />
    {schedule.hold !== null && (
      <span class="badge badge-held" title="Held">
        <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
          <path d="M4 2.5v7M8 2.5v7" />
        </svg>Held
      </span>
    )}
    {operation.under_review && (
      <span class="badge badge-review" title="Under review">
        <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
          <path d="M3 11V1.5h6L7.6 4 9 6.5H3" />
        </svg>Under review
      </span>
    )}
  </span>
)
