import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatCount, formatName } from "../data/format.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age } from "../parts/Time.tsx"

type Condition = Overview["standing"][number]["condition"]

/** Where the operations in each condition are listed: all conditions that the figures tell, in the order of the columns. */
const listOf: Readonly<Record<Condition, { readonly queue: string; readonly state?: string }>> = {
  accepted: { queue: "all", state: "accepted" },
  submitting: { queue: "all", state: "submitting" },
  submitted: { queue: "all", state: "submitted" },
  indeterminate: { queue: "indeterminate" },
  unauthorized: { queue: "waiting", state: "accepted" },
  unread: { queue: "waiting", state: "submitted,indeterminate" },
  approval: { queue: "approval" },
  held: { queue: "held" },
  under_review: { queue: "under_review" }
}
const conditions = Object.keys(listOf) as ReadonlyArray<Condition>

const Cell = ({ condition, figures, provider }: {
  readonly figures: Overview
  /** Undefined: of all providers. */
  readonly provider: string | undefined
  readonly condition: Condition
}) => {
  const rows = figures.standing.filter((row) =>
    row.condition === condition && (provider === undefined || row.provider === provider)
  )
  const count = rows.reduce((sum, { count }) => sum + count, 0)
  const since = rows.flatMap(({ since }) => since ?? []).sort()[0]
  if (count === 0) return <td role="cell" class="number none">0</td>
  const { queue, state } = listOf[condition]
  return (
    <td role="cell" class="number" data-label={formatName(condition)}>
      <a href={to(["queues", queue], { provider, state, order: "oldest" })}>{formatCount(count)}</a>
      {since !== undefined && (
        <span class="secondary">
          <Age since={since} />
        </span>
      )}
    </td>
  )
}

/**
 * How many operations of each provider are in each condition, and for how long the oldest of them has been. On a narrow screen each
 * provider is a card without zeros; the roles keep it a table for screen readers.
 */
export const ConditionsPanel = ({ figures }: { readonly figures: Overview }) => {
  const providers = [...new Set(figures.operations.map(({ provider }) => provider))].sort()
  const isEmpty = (condition: Condition) =>
    !figures.standing.some((row) => row.condition === condition && row.count > 0)
  return (
    <Panel title="Now, by provider" aside={<span class="secondary">operations, and age of the oldest</span>}>
      <table class="conditions" role="table">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Provider</th>
            {conditions.map((condition) => (
              <th key={condition} role="columnheader" scope="col" class={`number ${isEmpty(condition) ? "none" : ""}`}>
                {formatName(condition)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {[...providers.length > 1 ? [undefined] : [], ...providers].map((provider) => (
            <tr key={provider ?? ""} role="row">
              <th role="rowheader" scope="row">{provider ?? "All"}</th>
              {conditions.map((condition) => (
                <Cell key={condition} figures={figures} provider={provider} condition={condition} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="secondary">
        Each counts once, under the first reason that holds: approval, held, unauthorized or unread, under review, its
        state.
      </p>
    </Panel>
  )
}
