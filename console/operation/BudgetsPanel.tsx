import { useId } from "preact/hooks"
import type { Detail, GrantLimits } from "../../src/operator/console/ConsoleApi.ts"
import { formatUsed } from "../data/format.ts"
import { useResource } from "../data/resource.ts"
import { Panel } from "../parts/Panel.tsx"
import { ReadFailure } from "../parts/ReadFailure.tsx"
import { Time } from "../parts/Time.tsx"

/** Milliseconds after which the page reads again: other operations of the grant use its budgets, too. */
const every = 15_000

type Limit = GrantLimits["limits"][number]
type Budget = Extract<Limit["limit"], { readonly per: string }>

const isBudget = (limit: Limit): limit is Limit & { readonly limit: Budget } => "per" in limit.limit

const windowText = ({ per, rolling, time_zone = "UTC" }: Budget): string => {
  if (per === "grant") return "for the life of the grant"
  return rolling === true
    ? `in the last ${{ day: "24 hours", week: "7 days", month: "30 days" }[per]}`
    : `per ${per} (${time_zone})`
}

const BudgetBar = ({ budget }: { readonly budget: Limit & { readonly limit: Budget } }) => {
  const { limit, operation_types, remaining, resets_at } = budget
  const id = useId()
  const { percent, used } = formatUsed(limit.amount, remaining)
  const text = `${used} of ${limit.amount} ${limit.currency} used`
  return (
    <li>
      <p id={id}>
        {limit.currency} {windowText(limit)}
        {operation_types !== undefined && <span class="secondary">, {operation_types.join(", ")}</span>}
      </p>
      <div
        class="budget-bar"
        role="meter"
        aria-labelledby={id}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        aria-valuetext={text}
      >
        <svg aria-hidden="true" width="100%" height="8">
          <rect width={`${percent}%`} height="8" />
        </svg>
      </div>
      <p class="secondary">
        {text}
        {resets_at !== null && (
          <>
            , resets <Time at={resets_at} />
          </>
        )}
      </p>
    </li>
  )
}

/** What the grant that accepted the operation has used of its budgets: sums, whose operations stay masked. Absent: it has no budget. */
export const BudgetsPanel = ({ detail: { grant_id, operation } }: { readonly detail: Detail }) => {
  const { data, error, reload } = useResource<GrantLimits>(`/grants/${grant_id}/limits`, {
    concerns: ({ operations }) => operations?.some(({ id }) => id === operation.id) ?? true,
    every
  })
  const budgets = data?.limits.filter(isBudget) ?? []
  if (budgets.length === 0 && error === undefined) return null
  return (
    <Panel title="Budgets of the grant">
      {error !== undefined && <ReadFailure error={error} hasData={data !== undefined} retry={reload} />}
      <ul class="budgets">
        {budgets.map((budget, at) => <BudgetBar key={at} budget={budget} />)}
      </ul>
    </Panel>
  )
}
