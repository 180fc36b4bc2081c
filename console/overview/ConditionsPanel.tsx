import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatCount, formatName } from "../data/format.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age } from "../parts/Time.tsx"

const conditions = [
  "accepted",
  "submitting",
  "submitted",
  "indeterminate",
  "unauthorized",
  "unread",
  "held",
  "under_review"
] as const

const addressOf = (condition: string, provider: string): string =>
  ["held", "under_review", "indeterminate"].includes(condition)
    ? to(["queues", condition], { provider })
    : condition === "unread" || condition === "unauthorized"
    ? to(["queues", "waiting"], { provider })
    : to(["queues", "all"], { state: condition, provider })

const countOf = (figures: Overview, provider: string, condition: string): number => {
  const rows =
    condition === "held" || condition === "under_review" || condition === "unread" || condition === "unauthorized"
      ? figures[condition]
      : figures.operations.filter(({ state }) => state === condition)
  return rows.find((row) => row.provider === provider)?.count ?? 0
}

const Cell = ({ condition, figures, provider }: {
  readonly figures: Overview
  readonly provider: string
  readonly condition: string
}) => {
  const count = countOf(figures, provider, condition)
  const oldest = figures.oldest.find((row) => row.provider === provider && row.condition === condition)
  if (count === 0) return <td class="number none">0</td>
  return (
    <td class="number">
      <a href={addressOf(condition, provider)}>{formatCount(count)}</a>
      {oldest !== undefined && (
        <span class="secondary">
          <Age since={oldest.since} />
        </span>
      )}
    </td>
  )
}

/** How many operations of each provider are in each condition, and for how long the oldest of them has been. */
export const ConditionsPanel = ({ figures }: { readonly figures: Overview }) => {
  const providers = [...new Set(figures.operations.map(({ provider }) => provider))].sort()
  return (
    <Panel title="Now, by provider" aside={<span class="secondary">operations, and age of the oldest</span>}>
      <div class="scroll" tabIndex={0} role="region" aria-label="Operations by provider and condition">
        <table class="conditions">
          <thead>
            <tr>
              <th scope="col">Provider</th>
              {conditions.map((condition) => <th key={condition} scope="col" class="number">{formatName(condition)}
              </th>)}
            </tr>
          </thead>
          <tbody>
            {providers.map((provider) => (
              <tr key={provider}>
                <th scope="row">{provider}</th>
                {conditions.map((condition) => (
                  <Cell key={condition} figures={figures} provider={provider} condition={condition} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}
