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
      "A mutation may have reached the provider, and its outcome is unknown. Status reads settle these operations, or the answer of the provider to a person.",
    empty:
      "Of each operation that a worker has finished, the outcome is known, or its provider has confirmed that it received it.",
    count: inColumn
  },
  {
    name: "under_review",
    title: "Under review",
    meaning:
      "People look into these operations: an operator asked for it, status reads may not settle them, or they stayed in one state for too long.",
    empty: "No operator began a review, and no operation has been in one state for too long.",
    count: inColumn
  },
  {
    name: "held",
    title: "Held",
    meaning:
      "Workers do not claim these operations until they are released: they may have been sent before, or an operator held them.",
    empty: "Workers may claim every accepted operation that is ready and waits for no approval.",
    count: inColumn
  },
  {
    name: "waiting",
    title: "Waiting",
    meaning:
      "A worker found these operations due and not ready, returned its claim without sending, or may not read their status. It tries again by itself.",
    empty: "No operation waits for a grant, a client, a provider connection, a payload key or its provider."
  },
  {
    name: "approval",
    title: "To approve",
    meaning:
      "A person decides about these operations: their resource owner, or an operator. Those come first that are cancelled first without a decision. The first 500.",
    empty: "No operation waits for an approval.",
    count: inColumn
  },
  {
    name: "reversed",
    title: "Reversed",
    meaning:
      "These operations succeeded, and their provider reversed them in the last 7 days, such as by a return of the receiving bank. They stay succeeded. The latest 500.",
    empty: "No status read of the last 7 days proved that a success was reversed.",
    count: ({ reversed }) => sum(reversed)
  },
  {
    name: "failed",
    title: "Failed",
    meaning: "These operations failed in the last 24 hours. Their clients may request each again, under another key.",
    empty: "No operation failed in the last 24 hours.",
    count: ({ failed }) => sum(failed)
  },
  {
    name: "all",
    title: "All operations",
    meaning: "Operations in any state, the latest change first.",
    empty: "The ledger has no operation that matches."
  }
]
