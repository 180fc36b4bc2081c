import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatDuration } from "../data/format.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age, Time } from "../parts/Time.tsx"
import { isLost, submittingAddress } from "./openClaims.ts"
import { PauseBadge } from "./PauseBadge.tsx"

type Worker = Overview["workers"][number]

/** Milliseconds of difference from the clock of the database above which the clock of a worker is shown. */
const shownSkew = 2000

/** Shown if the clock of a worker is wrong. Above five seconds the worker sends nothing. */
const ClockBadge = ({ skew }: { readonly skew: number }) =>
  Math.abs(skew) > shownSkew
    ? (
      <span class="badge badge-clock">
        Clock {formatDuration(Math.abs(skew))} {skew < 0 ? "behind" : "ahead"}
      </span>
    )
    : null

const Row = ({ gone, worker }: { readonly worker: Worker; readonly gone: boolean }) => (
  <tr class={gone ? "gone" : undefined}>
    <th scope="row">
      <span class="worker-name" title={worker.worker_id ?? worker.process_id}>
        {worker.worker_id ?? `Process ${worker.process_id.slice(0, 8)}`}
      </span>
      <span class="secondary">
        {worker.worker_id === null ? "WORKER_ID names it, " : `process ${worker.process_id.slice(0, 8)}, `}
        version {worker.version}
      </span>
    </th>
    <td class="number">
      {!gone && <Age since={worker.started_at} />}
    </td>
    <td class="number">
      {gone ? <a class="badge badge-gone" href={submittingAddress}>Lost</a> : null} <Time at={worker.seen_at} />
    </td>
    <td class="cell-rest">
      <span class="badges">
        {!gone &&
          Object.entries(worker.pauses).map(([provider, reason]) => (
            <PauseBadge key={provider} provider={provider} reason={reason} />
          ))}
        {!gone && <ClockBadge skew={worker.clock_skew_ms ?? 0} />}
      </span>
    </td>
  </tr>
)

/** The processes with workers, the pauses of their providers, and wrong clocks. */
export const WorkersPanel = ({ at, workers }: { readonly workers: ReadonlyArray<Worker>; readonly at: string }) => {
  const seen = workers.filter((worker) => !isLost(worker, at)).length
  return (
    <Panel title="Workers" aside={<span class="secondary">{seen} seen in the last 30 s</span>}>
      {workers.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
          <table class="workers">
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col" class="number">Up for</th>
                <th scope="col" class="number">Last heard from</th>
                <th scope="col">Providers and clock</th>
              </tr>
            </thead>
            <tbody>
              {workers.map((worker) => <Row key={worker.process_id} worker={worker} gone={isLost(worker, at)} />)}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}
