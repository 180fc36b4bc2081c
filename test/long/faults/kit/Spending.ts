/** Clients whose grants have limits: what they may spend, what they ask for, and whether the ledger kept the limits. */
import { BigDecimal, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { AuthorizationDetails, Budget } from "../../../../src/domain/AuthorizationDetails.ts"
import type { Terms } from "../../../../src/domain/Terms.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import type { ClientGrant } from "./Clients.ts"
import type { Dice } from "./Dice.ts"
import type { Evidence, FinalOperation } from "./Evidence.ts"
import { counted } from "./Figure.ts"
import { Platform } from "./Postgres.ts"
import type { Scene } from "./Scene.ts"

/** A window of each kind. A run is shorter than each. */
const budgets: ReadonlyArray<Budget> = [
  { currency: "EUR", amount: "300.00", per: "grant" },
  { currency: "USD", amount: "150.00", per: "day", time_zone: "Europe/Berlin" },
  { currency: "JPY", amount: "20000", per: "week", rolling: true }
]

export const limits: AuthorizationDetails = [{ type: "financial_operations", budgets }]

/** A budget pays for about ten of them, or fewer. */
export const drawTerms = (dice: Dice): Terms => {
  const { currency } = budgets[dice.below(budgets.length)]!
  const units = 1 + dice.below(6000)
  return { currency, amount: currency === "JPY" ? String(units) : (units / 100).toFixed(2), payee: "Landlord" }
}

/** The day on which an operation counts, where the window is a day of a calendar. */
const windowOf = ({ time_zone }: Budget, at: Date) =>
  time_zone === undefined ? "" : at.toLocaleDateString("en-CA", { timeZone: time_zone })

const sumsOf = (operations: ReadonlyArray<FinalOperation>, budget: Budget) =>
  Map.groupBy(
    operations.filter(({ limit_currency }) => limit_currency === budget.currency),
    ({ created_at, grant_id }) => `${grant_id} ${windowOf(budget, created_at)}`
  )

const amountOf = (operations: ReadonlyArray<FinalOperation>) =>
  BigDecimal.sumAll(operations.map(({ limit_amount }) => BigDecimal.fromStringUnsafe(limit_amount!)))

/** Windows of grants in which these operations exceed a budget. */
const overspent = (operations: ReadonlyArray<FinalOperation>): ReadonlyArray<string> =>
  budgets.flatMap((budget) =>
    [...sumsOf(operations, budget)].flatMap(([window, all]) =>
      BigDecimal.isGreaterThan(amountOf(all), BigDecimal.fromStringUnsafe(budget.amount))
        ? [`${window}: ${BigDecimal.format(amountOf(all))} of ${budget.amount} ${budget.currency}`]
        : []
    )
  )

const sumsOverBudget = `
  SELECT o.grant_id || ': ' || sum(o.limit_amount) || ' ' || b.currency AS violation
  FROM operations o JOIN jsonb_to_recordset($1::jsonb) AS b (currency text, amount numeric) ON b.currency = o.limit_currency
  WHERE o.state NOT IN ('failed', 'cancelled')
  GROUP BY o.grant_id, b.currency, b.amount HAVING sum(o.limit_amount) > b.amount`

/** Looks at the sums of all grants every quarter of a second, in one snapshot each, without the proxies. */
export const watchSums = (into: Array<string>) =>
  SqlClient.SqlClient.use((sql) =>
    sql.unsafe<{ readonly violation: string }>(sumsOverBudget, [JSON.stringify(budgets)])
  ).pipe(
    Effect.timeout("1 second"),
    Effect.tap((rows) => Effect.sync(() => void into.push(...rows.map(({ violation }) => violation)))),
    Effect.ignore,
    Effect.repeat(Schedule.spaced("250 millis"))
  )

/** Grants of which the gateway tells another rest than the operations leave. */
export const wrongRests = (
  { direct }: Scene,
  grants: ReadonlyArray<ClientGrant>,
  operations: ReadonlyArray<FinalOperation>
) =>
  Effect.gen(function*() {
    const { limits } = yield* Grants
    const reserving = operations.filter(({ state }) => state !== "failed" && state !== "cancelled")
    const wrong = yield* Effect.forEach(grants, ({ identity: { grant_id } }) =>
      Effect.map(limits(grant_id), (all) =>
        all.flatMap(({ limit, remaining }) => {
          const spent = reserving.filter((one) =>
            one.grant_id === grant_id && one.limit_currency === limit.currency
          )
          const rest = BigDecimal.subtract(BigDecimal.fromStringUnsafe(limit.amount), amountOf(spent))
          return BigDecimal.equals(rest, BigDecimal.fromStringUnsafe(remaining))
            ? []
            : [`${grant_id}: ${remaining} of ${limit.amount} ${limit.currency}, not ${BigDecimal.format(rest)}`]
        })))
    return wrong.flat()
  }).pipe(Effect.provide(Layer.fresh(Grants.layer.pipe(Layer.provide(direct), Layer.provideMerge(Platform)))))

/** What the run shows beside the rules of `judge`. */
export const judgeSpending = (
  { acceptances, operations, truths }: Evidence,
  found: { readonly overAtAnInstant: ReadonlyArray<string>; readonly wrongRests: ReadonlyArray<string> }
) => {
  const keys = new Set(operations.map(({ key }) => key))
  const paid = new Set<string>(
    truths.filter(({ status }) => status === "succeeded" || status === "pending").map(({ key }) => key)
  )
  return {
    overspent: counted(
      "budgets exceeded by what the ledger keeps",
      overspent(operations.filter(({ state }) => state !== "failed" && state !== "cancelled"))
    ),
    overAtAnInstant: counted("budgets exceeded at an instant of the run", found.overAtAnInstant),
    overpaid: counted(
      "budgets exceeded by what the provider paid",
      overspent(operations.filter(({ id }) => paid.has(id)))
    ),
    unlimited: counted(
      "operations that reserved nothing",
      operations.filter(({ limit_amount }) => limit_amount === null).map(({ id }) => id)
    ),
    refusedAndKept: counted(
      "requests refused by a limit, with an operation",
      acceptances.filter(({ key, refused }) => refused === true && keys.has(key)).map(({ key }) => key)
    ),
    wrongRests: counted("limits whose rest is told wrong", found.wrongRests)
  }
}
