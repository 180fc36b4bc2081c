import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { Time } from "./Time.tsx"

/** Why the operation is where it is, and what happens next. */
export const NextStep = ({ next: { action, at, reason } }: { readonly next: Summary["next"] }) => (
  <div class="next">
    <span>{reason}</span>
    <span class="secondary">
      {action} {at !== null && (
        <>
          Due <Time at={at} />.
        </>
      )}
    </span>
  </div>
)
