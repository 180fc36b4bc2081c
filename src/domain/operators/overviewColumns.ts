/**
 * The counts of the console's overview: by state, as its plots have them, and by what else holds of some of these operations, as its queues
 * have them. `standing` counts each operation once, for `status`.
 */
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { ProviderName } from "../Grant.ts"
import { isTerminal } from "../Operation.ts"
import { Timestamp } from "../Timestamp.ts"
import { conditions, type FiguresByCondition } from "./FiguresForm.ts"

/** The operations of a provider in a column. One that is held or under review is in the column of its state, too. */
export const OverviewColumn = Schema.Struct({
  provider: ProviderName,
  name: Schema.Literals(conditions),
  count: Schema.Int,
  /** Since when the oldest of them has been in its state. Null: unknown. */
  since: Schema.NullOr(Timestamp)
})
export type OverviewColumn = typeof OverviewColumn.Type

type Count = Omit<OverviewColumn, "since">

export const overviewColumns = (figures: FiguresByCondition): ReadonlyArray<OverviewColumn> => {
  const { approval, oldest, operations, standing, unauthorized, under_review, unread } = figures
  const named = (name: Count["name"], rows: ReadonlyArray<Omit<Count, "name">>): ReadonlyArray<Count> =>
    rows.map(({ count, provider }) => ({ provider, name, count }))
  const counts = [
    ...operations.flatMap(({ count, provider, state }): ReadonlyArray<Count> =>
      // No column is about settled operations.
      isTerminal(state) ? [] : [{ provider, name: state as Count["name"], count }]
    ),
    ...named("approval", approval),
    // Those that only their decision releases are in `held` of the figures, and in another queue.
    ...named("held", standing.filter(({ condition }) => condition === "held")),
    ...named("unauthorized", unauthorized),
    ...named("unread", unread),
    ...named("under_review", under_review)
  ]
  return counts.map((row) => {
    const isOf = (condition: Count["name"]) => condition === row.name || row.name === "accepted" && condition === "held"
    const times = (row.name === "approval" || row.name === "held" ? standing : oldest)
      .flatMap(({ condition, provider, since }) => provider === row.provider && isOf(condition) ? since ?? [] : [])
    return { ...row, since: times.length === 0 ? null : times.reduce((one, other) => DateTime.min(one, other)) }
  })
}
