import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { Time } from "./Time.tsx"

/** What happens next, when, and why: first what differs from row to row. Of a claim: when it is rescued. Of a settled operation: nothing. */
export const NextStep = ({ summary: { next: { action, at, by, reason }, operation, schedule } }: {
  readonly summary: Summary
}) => {
  if (by === "none") return null
  const rescue = operation.state === "submitting" && schedule.return_reason === null ? schedule.due_at : null
  return (
    <span title={`${action} ${reason}`}>
      {rescue !== null
        ? (
          <>
            Rescue <Time at={rescue} />.
          </>
        )
        : at !== null && (
          <>
            <Time at={at} />:
          </>
        )} {action} <span class="secondary">{reason}</span>
    </span>
  )
}
