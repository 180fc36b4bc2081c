/**
 * Limits in SQL: refusals of the function `reserve_limits`, and what remains of limits.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as DateTime from "effect/DateTime"
import {
  type Limit,
  LimitExceeded,
  type LimitRefusal,
  OperationNotCovered,
  PayeeNotAllowed,
  type RemainingLimit,
  TermsRequired
} from "../../domain/AuthorizationDetails.ts"
import { formatAmount } from "../../domain/Terms.ts"

interface LimitRow {
  readonly limit: Limit
  readonly remaining: string
  /** Milliseconds since the epoch. */
  readonly resets_at: number | null
}

/** A refusal of `reserve_limits`. */
export type LimitRefusalRow =
  | { readonly reason: "operation_type" | "currency" | "payee" | "terms" }
  | { readonly reason: "limit" } & LimitRow

const fromRow = ({ limit, remaining, resets_at }: LimitRow) => ({
  limit,
  remaining: formatAmount(BigDecimal.fromStringUnsafe(remaining), limit.currency),
  resets_at: resets_at === null ? null : DateTime.makeUnsafe(resets_at)
})

export const toLimitRefusal = (row: LimitRefusalRow): LimitRefusal => {
  switch (row.reason) {
    case "limit":
      return new LimitExceeded(fromRow(row))
    case "payee":
      return new PayeeNotAllowed()
    case "terms":
      return new TermsRequired()
    default:
      return new OperationNotCovered({ missing: row.reason })
  }
}

/** An element of `remainingOf`. */
export interface RemainingRow extends LimitRow {
  readonly types: ReadonlyArray<string> | null
}

export const toRemainingLimit = ({ types, ...row }: RemainingRow): RemainingLimit => ({
  ...types === null ? {} : { operation_types: types },
  ...fromRow(row)
})

/** What remains of the limits of the grant `g`, as JSON. The parameter has the limits of the credential, or null. */
export const remainingOf = (credential: string): string => `remaining_limits(g.id, g.client_id, ${credential}::jsonb)`
