import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age } from "../parts/Time.tsx"

type Problem = Overview["problems"][number]

/** The operations that it is about, those that wait for the longest time first. */
const addressOf = ({ provider, queue, states = [] }: NonNullable<Problem["operations"]>): string =>
  to(["queues", queue ?? "all"], { provider, state: states.join(","), order: "oldest" })

/** The text, with its commands as code. */
const WithCommands = ({ text }: { readonly text: string }) => (
  <>{text.split("`").map((part, at) => at % 2 === 0 ? part : <code key={at}>{part}</code>)}</>
)

/** What needs people, since when, and what they do: the most urgent first. Each leads to its operations. */
export const ProblemsPanel = ({ problems }: { readonly problems: ReadonlyArray<Problem> }) => (
  <Panel title={problems.length === 0 ? "Nothing needs you" : "What needs you"} class="problems-panel">
    <ul class="problems">
      {problems.map(({ message, next, operations, since }) => (
        <li key={message}>
          <svg viewBox="0 0 12 12" width="14" height="14" aria-hidden="true">
            <path d="M6 1.2 11.2 10.5H.8zM6 4.8v2.4M6 8.9v.1" />
          </svg>
          <div>
            <p>
              {operations === null ? <strong>{message}</strong> : <a href={addressOf(operations)}>{message}</a>}
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
      ))}
    </ul>
  </Panel>
)
