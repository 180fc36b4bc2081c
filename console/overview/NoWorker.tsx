import type { Overview } from "../../src/operator/console/ConsoleApi.ts"

/** Milliseconds without a report after which a worker counts as gone. */
const goneAfter = 30_000

/** Whether the worker had not reported itself for too long, at this time. */
export const isGone = ({ seen_at }: Overview["workers"][number], at: string): boolean =>
  Date.parse(at) - Date.parse(seen_at) > goneAfter

/** Warns if no worker runs: then nothing else on the page will change. */
export const NoWorker = ({ figures: { at, workers } }: { readonly figures: Overview }) =>
  workers.every((worker) => isGone(worker, at))
    ? (
      <p class="warning">
        No worker reports itself, so nothing is sent and no status is read. Start one with <code>work</code>.
      </p>
    )
    : null
