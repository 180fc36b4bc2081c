import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatCount, formatName } from "../data/format.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age } from "../parts/Time.tsx"

type Condition = Overview["columns"][number]["name"]

/** Where the operations of each state are listed. */
const states = {
  accepted: { queue: "all", state: "accepted" },
  submitting: { queue: "all", state: "submitting" },
  submitted: { queue: "all", state: "submitted" },
  indeterminate: { queue: "indeterminate", state: undefined }
}

/** The columns after the states: what else holds of some of the operations. */
const listOf: Readonly<Record<Condition, { readonly queue: string; readonly state?: string | undefined }>> = {
  ...states,
  approval: { queue: "approval" },
  held: { queue: "held" },
  unauthorized: { queue: "waiting", state: "accepted" },
  keyless: { queue: "waiting", state: "accepted" },
  unread: { queue: "waiting", state: "submitted,indeterminate" },
  under_review: { queue: "under_review" }
}

const classOf = (name: Condition) => name in states ? "number" : "number of"

const Cell = ({ figures, name, provider }: {
  readonly figures: Overview
  /** Undefined: of all providers. */
  readonly provider: string | undefined
  readonly name: Condition
}) => {
  const rows = figures.columns.filter((row) => row.name === name && (provider ?? row.provider) === row.provider)
  const count = rows.reduce((sum, { count }) => sum + count, 0)
  const since = rows.flatMap(({ since }) => since ?? []).sort()[0]
  const { queue, state } = listOf[name]
  return count === 0 ?
    <td role="cell" class={`none ${classOf(name)}`}>0</td> :
    (
      <td role="cell" class={classOf(name)} data-label={formatName(name)}>
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
 * How many operations of each provider are in each state, and what else holds of some of them, with the age of the oldest. Columns without an
 * operation are left out. On a narrow screen each provider is a card without zeros; the roles keep it a table for screen readers.
 */
export const ConditionsPanel = ({ figures }: { readonly figures: Overview }) => {
  const providers = [...new Set(figures.operations.map(({ provider }) => provider))].sort()
  const names = (Object.keys(listOf) as ReadonlyArray<Condition>).filter((name) =>
    figures.columns.some((column) => column.name === name)
  )
  return (
    <Panel
      title="Now, by provider"
      aside={
        <span class="secondary">
          {names.length === 0
            ? "no operation is unsettled"
            : "unsettled operations by state; right of the line, what else holds of them; age of the oldest"}
        </span>
      }
    >
      {names.length > 0 && (
        <table class="conditions cards" role="table">
          <thead role="rowgroup">
            <tr role="row">
              <th role="columnheader" scope="col">Provider</th>
              {names.map((name) => (
                <th key={name} role="columnheader" scope="col" class={classOf(name)}>{formatName(name)}</th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {[...providers.length > 1 ? [undefined] : [], ...providers].map((provider) => (
              <tr key={provider ?? ""} role="row">
                <th role="rowheader" scope="row">{provider ?? "All"}</th>
                {names.map((name) => <Cell key={name} figures={figures} name={name} provider={provider} />)}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}
