import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatCount } from "../data/format.ts"
import { to } from "../data/route.ts"
import { isGone } from "./NoWorker.tsx"

const unsent: ReadonlyArray<string> = ["accepted", "submitting"]

/** Operations of the provider that wait to be sent, without the held ones. */
const unsentOf = ({ held, operations }: Overview, provider: string): number => {
  const count = (rows: ReadonlyArray<{ readonly provider: string; readonly count: number }>) =>
    rows.reduce((sum, row) => row.provider === provider ? sum + row.count : sum, 0)
  return count(operations.filter(({ state }) => unsent.includes(state))) - count(held)
}

/** Says why operations wait: workers have paused their provider, or nothing allows to send them or to read their status. */
export const Waits = ({ figures }: { readonly figures: Overview }) => (
  <>
    {figures.workers.filter((worker) => !isGone(worker, figures.at)).flatMap((worker) =>
      Object.entries(worker.pauses).map(([provider, reason]) =>
        reason !== null && (
          <p class="warning" key={`${worker.process_id} ${provider}`}>
            {provider} is paused in {worker.worker_id ?? worker.process_id}, and{" "}
            <a href={to(["queues", "all"], { provider })}>
              {formatCount(unsentOf(figures, provider))} unsent operations
            </a>{" "}
            wait: {reason}
          </p>
        )
      )
    )}
    {figures.unauthorized.map(({ count, provider }) => (
      <p class="warning" key={provider}>
        {provider}: <a href={to(["queues", "waiting"], { provider })}>{formatCount(count)} operations</a>{" "}
        are not sent, because no live grant, client or provider connection allows it.
      </p>
    ))}
    {figures.unread.map(({ count, provider }) => (
      <p class="warning" key={provider}>
        {provider}: the status of <a href={to(["queues", "waiting"], { provider })}>{formatCount(count)} operations</a>
        {" "}
        is not read, because no live grant, client or provider connection allows it.
      </p>
    ))}
  </>
)
