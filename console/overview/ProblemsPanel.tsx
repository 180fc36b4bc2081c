import type { ComponentChildren } from "preact"
import { workerName } from "../../src/domain/operators/workerName.ts"
import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatName } from "../data/format.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age, Time } from "../parts/Time.tsx"
import { claimsOf, isLost, openClaims, useSubmitting } from "./openClaims.ts"

type Problem = Overview["problems"][number]

/** The operations that it is about, those that wait for the longest time first. */
const addressOf = ({ queue, states = [], ...filter }: NonNullable<Problem["operations"]>): string =>
  to(["queues", queue ?? "all"], { ...filter, state: states.join(","), order: "oldest" })

const Entry = ({ address, children, message, since = null }: {
  readonly address: string | null
  readonly message: string
  readonly children: ComponentChildren
  readonly since?: string | null
}) => (
  <li>
    <svg viewBox="0 0 12 12" width="14" height="14" aria-hidden="true">
      <path d="M6 1.2 11.2 10.5H.8zM6 4.8v2.4M6 8.9v.1" />
    </svg>
    <div>
      <p>
        {address === null ? <strong>{message}</strong> : <a href={address}>{message}</a>}
        {since !== null && (
          <span class="secondary">
            oldest <Age since={since} />
          </span>
        )}
      </p>
      <p class="secondary">{children}</p>
    </div>
  </li>
)

/** The text, with its commands as code. */
const WithCommands = ({ text }: { readonly text: string }) => (
  <>{text.split("`").map((part, at) => at % 2 === 0 ? part : <code key={at}>{part}</code>)}</>
)

/**
 * What needs people, since when, and what they do: the most urgent first. Each leads to its operations. Then the lost workers whose claims
 * the rescuer has not moved yet.
 */
export const ProblemsPanel = ({ figures: { at, problems, workers } }: { readonly figures: Overview }) => {
  const page = useSubmitting()
  const lost = workers.flatMap((worker) => {
    const claims = page && isLost(worker, at) && openClaims(page, worker)
    return claims ? [{ worker, claims }] : []
  })
  const count = problems.length + lost.length
  return (
    <Panel title={count === 0 ? "Nothing needs you" : `What needs you: ${count}`} class="problems-panel">
      <ul class="problems">
        {problems.map(({ next, operations, ...problem }) => (
          <Entry key={problem.message} {...problem} address={operations && addressOf(operations)}>
            <WithCommands text={next} />
          </Entry>
        ))}
        {lost.map(({ claims, worker }) => (
          <Entry
            key={worker.process_id}
            message={`${formatName(workerName(worker))} is lost. It may have claimed ${claims.count}`}
            address={claimsOf(worker)}
          >
            Those without an outcome come to Indeterminate{claims.at !== null && (
              <>
                {" "}
                <Time at={claims.at} />
              </>
            )}. If no other worker runs, start it again.
          </Entry>
        ))}
      </ul>
    </Panel>
  )
}
