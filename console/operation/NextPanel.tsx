import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { Time } from "../parts/Time.tsx"

/** What happens next, when, and why. */
export const NextPanel = ({ detail: { next, operation } }: { readonly detail: Detail }) => (
  <section class={`panel next-panel next-by-${next.by}`} aria-label="Next action">
    <p class="secondary">Next action {next.at !== null && <Time at={next.at} />}</p>
    <p class="next-action">{next.action}</p>
    <p class="secondary">{next.reason}</p>
    {operation.failure !== null && (
      <p class="failure-text">
        <code>{operation.failure.code}</code> {operation.failure.message}
      </p>
    )}
  </section>
)
