import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { StateBadge } from "./StateBadge.tsx"

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
