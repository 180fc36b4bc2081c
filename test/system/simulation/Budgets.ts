/** The limits of grants and what operations keep of them, counted from the amounts of requests: no code of a ledger counts here. */
import type { AuthorizationDetails } from "../../../src/domain/AuthorizationDetails.ts"
import type { GrantId } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"

/** Limits of a grant, in whole EUR. */
export interface Limits {
  /** The most of one operation. */
  readonly most: number
  readonly budget: number
  readonly window: "grant" | "calendar day" | "rolling day"
}

/** Decimal text of whole EUR. */
export const toText = (euros: number): string => `${euros}.00`

export const detailsOf = ({ budget, most, window }: Limits): AuthorizationDetails => [{
  type: "financial_operations",
  max_amount: [{ currency: "EUR", amount: toText(most) }],
  budgets: [{
    currency: "EUR",
    amount: toText(budget),
    per: window === "grant" ? "grant" : "day",
    ...window === "rolling day" ? { rolling: true } : {}
  }]
}]

/** What operations keep under the limits of a grant. */
export interface Usage extends Limits {
  readonly kept: number
}

export const describeUsage = ({ budget, kept, most, window }: Usage): string =>
  `operations keep ${kept} of ${budget} EUR per ${window}, of at most ${most} each`

export class Budgets {
  readonly limits = new Map<GrantId, Limits>()
  /** Whole EUR by the key of the request. */
  readonly amounts = new Map<string, number>()

  /** The usage in the window of an instant, in milliseconds since the epoch. Null: the grant has no limits. */
  usage(grant: GrantId, at: number, operations: ReadonlyMap<OperationId, MemoryRecord>): Usage | null {
    const limits = this.limits.get(grant)
    if (limits === undefined) return null
    // No run lasts a day, so all of its operations are in one rolling window. It may cross midnight.
    const windowOf = (millis: number) => limits.window === "calendar day" ? Math.floor(millis / 86_400_000) : 0
    let kept = 0
    for (const { key, operation: { created_at, state }, owner } of operations.values()) {
      const isGivenBack = state === "failed" || state === "cancelled"
      const isInWindow = windowOf(created_at.epochMilliseconds) === windowOf(at)
      if (owner.grant_id === grant && isInWindow && !isGivenBack) kept += this.amounts.get(key)!
    }
    return { ...limits, kept }
  }
}
