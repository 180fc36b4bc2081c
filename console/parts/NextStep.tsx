import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { Time } from "./Time.tsx"

/** Why the operation is where it is, and what happens next. Of a settled one: nothing. */
export const NextStep = ({ next: { action, at, by, reason } }: { readonly next: Summary["next"] }) =>
  by === "none" ? null : (
    <div class="next" title={`${reason} ${action}`}>
      <span>{reason}</span>{" "}
      <span class="secondary">
        {action} {at !== null && (
          <>
            Due <Time at={at} />.
          </>
        )}
      </span>
    </div>
  )
