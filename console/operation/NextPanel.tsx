import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { to } from "../data/route.ts"
import { Time } from "../parts/Time.tsx"
import { isUnsent } from "./isUnsent.ts"
import { ScheduleFacts } from "./ScheduleFacts.tsx"

/** Why the operation cannot be cancelled, and what an operator does instead. */
const insteadOfCancel = ({ operation: { state, terminal }, schedule }: Detail): string | null => {
  if (terminal || schedule.unsent || schedule.hold !== null) return null
  return isUnsent(state)
    ? "It cannot be cancelled now, because a worker may be sending it."
    : "It cannot be cancelled, because it may have been sent. If its provider tells the outcome, record it."
}

/** Whether a problem of its provider may tell what it waits for. */
const waits = ({ next, schedule }: Detail): boolean =>
  schedule.waiting || schedule.return_reason !== null || /paused/.test(next.reason)

/** What happens next, when and why, what an operator can do meanwhile, and what happened last. */
export const NextPanel = ({ detail }: { readonly detail: Detail }) => {
  const { next, operation } = detail
  const instead = insteadOfCancel(detail)
  return (
    <section class={`panel next-panel next-by-${next.by}`} aria-label="Next action">
      <div>
        <p class="secondary">Next action {next.at !== null && <Time at={next.at} />}</p>
        <p class="next-action">{next.action}</p>
        <p>{next.reason}</p>
        {waits(detail) && (
          <p>
            <a href={to([])}>What {detail.provider} needs</a>
          </p>
        )}
        {instead !== null && <p class="secondary">{instead}</p>}
        {operation.failure !== null && (
          <p class="failure-text">
            <code>{operation.failure.code}</code> {operation.failure.message}
          </p>
        )}
      </div>
      <ScheduleFacts detail={detail} />
    </section>
  )
}
