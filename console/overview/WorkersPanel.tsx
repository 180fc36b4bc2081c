import { shownAfterReport, workerName } from "../../src/domain/operators/workerName.ts"
import { formatDuration, formatName } from "../data/format.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age, Time } from "../parts/Time.tsx"
import { claimsOf, isLost, silence, type Worker } from "./openClaims.ts"

/** Whether the process of a worker sends to a provider, and if not, why. */
const PauseBadge = ({ provider, reason }: {
  readonly provider: string
  readonly reason: string | null
}) => (
  <span class={reason === null ? "badge provider-sending" : "badge provider-paused"}>
    <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={reason === null ? "M1 6h10" : "M4 2v8M8 2v8"} />
    </svg>
    {provider} {reason === null ? "sending" : `paused: ${reason}`}
  </span>
)

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
      <a class="worker-name" href={claimsOf(worker)} title={worker.worker_id ?? worker.process_id}>
        {worker.worker_id ?? formatName(workerName(worker))}
      </a>
      <span class="secondary">
        {worker.worker_id !== null && `process ${worker.process_id.slice(0, 8)}, `}version {worker.version}
      </span>
    </th>
    <td class="number">
      {!gone && <Age since={worker.started_at} />}
    </td>
    <td class="number">
      {gone && <span class="badge">Lost</span>} <Time at={worker.seen_at} />
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
  const shown = workers.filter((worker) => silence(worker, at) < shownAfterReport)
  const lost = shown.filter((worker) => isLost(worker, at)).length
  return (
    <Panel
      title="Workers"
      aside={
        <span class="secondary">
          {shown.length - lost} seen in the last 30 s{lost > 0 && `, ${lost} lost`}
        </span>
      }
    >
      {shown.length > 0 && (
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
              {shown.map((worker) => <Row key={worker.process_id} worker={worker} gone={isLost(worker, at)} />)}
            </tbody>
          </table>
        </div>
      )}
      {shown.some(({ worker_id }) => worker_id === null) && (
        <p class="secondary">WORKER_ID gives a worker a name, which its claims have.</p>
      )}
    </Panel>
  )
}
