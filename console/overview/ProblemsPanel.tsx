import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age } from "../parts/Time.tsx"
import { lostClaims, submittingAddress, useSubmitting } from "./openClaims.ts"

type Problem = Overview["problems"][number]

/** The operations that it is about, those that wait for the longest time first. */
const addressOf = ({ provider, queue, states = [] }: NonNullable<Problem["operations"]>): string =>
  to(["queues", queue ?? "all"], { provider, state: states.join(","), order: "oldest" })

/** A problem, or what happens by itself. */
const Entry = ({ address, message, next, since = null }: {
  readonly address: string | null
  readonly message: string
  readonly next: string
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
      <p class="secondary">
        <WithCommands text={next} />
      </p>
    </div>
  </li>
)

/** The text, with its commands as code. */
const WithCommands = ({ text }: { readonly text: string }) => (
  <>{text.split("`").map((part, at) => at % 2 === 0 ? part : <code key={at}>{part}</code>)}</>
)

/** What needs people, since when, and what they do: the most urgent first. Each leads to its operations. Then what lost workers left. */
export const ProblemsPanel = ({ figures }: { readonly figures: Overview }) => (
  <Panel title={figures.problems.length === 0 ? "Nothing needs you" : "What needs you"} class="problems-panel">
    <ul class="problems">
      {figures.problems.map((problem) => (
        <Entry
          key={problem.message}
          {...problem}
          address={problem.operations && addressOf(problem.operations)}
        />
      ))}
      {lostClaims(figures, useSubmitting()).map((lost) => (
        <Entry key={lost.message} {...lost} address={submittingAddress} />
      ))}
    </ul>
  </Panel>
)
