/** The queues, and what each of them means. */
import type { Overview } from "../../src/operator/console/ConsoleApi.ts"

export interface Queue {
  /** Part of the address. All but `all` are names of the API. */
  readonly name: string
  readonly title: string
  readonly meaning: string
  readonly empty: string
  /** How many operations it has, if the figures tell. */
  readonly count?: (figures: Overview, name: string) => number
}

const sum = (rows: ReadonlyArray<{ readonly count: number }>): number =>
  rows.reduce((total, { count }) => total + count, 0)

/** As the overview counts them. */
const inColumn = ({ columns }: Overview, name: string) => sum(columns.filter((column) => column.name === name))

export const queues: ReadonlyArray<Queue> = [
  {
    name: "indeterminate",
    title: "Indeterminate",
    meaning:
      "A mutation may have reached the provider, and its outcome is unknown. Status reads or the provider's answer to a person settle them.",
    empty: "No outcome is unknown.",
    count: inColumn
  },
  {
    name: "under_review",
    title: "Under review",
    meaning:
      "People look into them: an operator asked for it, status reads may not settle them, or they stayed in one state too long.",
    empty: "No operation is under review.",
    count: inColumn
  },
  {
    name: "held",
    title: "Held",
    meaning: "No worker claims them until they are released: they may have been sent before, or an operator held them.",
    empty: "No operation is held.",
    count: inColumn
  },
  {
    name: "waiting",
    title: "Waiting",
    meaning: "A worker found them not ready, returned its claim unsent, or may not read their status. It tries again.",
    empty: "No operation waits."
  },
  {
    name: "approval",
    title: "To approve",
    meaning: "Their resource owner or an operator decides. The first to end come first.",
    empty: "No operation waits.",
    count: inColumn
  },
  {
    name: "reversed",
    title: "Reversed",
    meaning: "Their provider proved another outcome in the last 7 days, such as a return. The latest 500.",
    empty: "No outcome was reversed.",
    count: ({ reversed }) => sum(reversed)
  },
  {
    name: "failed",
    title: "Failed",
    meaning: "They failed in the last 24 hours. Their clients may request them again, under other keys.",
    empty: "No operation failed in the last 24 hours.",
    count: ({ failed }) => sum(failed)
  },
  {
    name: "all",
    title: "All operations",
    meaning: "The latest change first.",
    empty: "The ledger has no operation that matches."
  }
]
