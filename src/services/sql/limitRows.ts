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

/** A row of `remainingColumns`. */
export interface RemainingRow extends LimitRow {
  readonly types: ReadonlyArray<string> | null
}

export const toRemainingLimit = ({ types, ...row }: RemainingRow): RemainingLimit => ({
  ...types === null ? {} : { operation_types: types },
  ...fromRow(row)
})

/** What remains of the limits of the grant `g`, as JSON. The parameter has the limits of the credential, or null. */
export const remainingOf = (credential: string): string => `
  (
    SELECT coalesce(json_agg(json_build_object('types', l.types, 'limit', l.value, 'resets_at',
      extract(epoch FROM l.resets_at) * 1000, 'remaining', greatest(0, l.amount - CASE WHEN l.since IS NULL THEN 0
        ELSE reserved_amount(g.id, l.currency, l.types, l.since, l.until) END)::text) ORDER BY l.n), '[]')
    FROM limits_of(g.authorization_details, ${credential}::jsonb, date_trunc('milliseconds', clock_timestamp())) l
  )`
