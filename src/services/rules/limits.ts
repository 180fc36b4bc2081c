/** The limits of a grant: what they refuse, and what remains of them. `migrations/0034_limits.sql` has the same rules. */
import * as BigDecimal from "effect/BigDecimal"
import * as DateTime from "effect/DateTime"
import {
  type AuthorizationDetails,
  type Budget,
  type FinancialOperations,
  type Limit,
  LimitExceeded,
  type LimitRefusal,
  OperationNotCovered,
  PayeeNotAllowed,
  type RemainingLimit,
  TermsRequired
} from "../../domain/AuthorizationDetails.ts"
import type { FinancialRequest } from "../../domain/Idempotency.ts"
import type { OperationType } from "../../domain/Operation.ts"
import { formatAmount } from "../../domain/Terms.ts"

/** What an operation counts in the windows of its grant. */
export interface Reservation {
  readonly type: OperationType
  readonly currency: string
  readonly amount: BigDecimal.BigDecimal
  readonly at: DateTime.Utc
  /** Null: the end of the operation erases it. */
  readonly payee: string | null
}

/** The limits of the grant and those of its credential. Each only narrows the other. */
export type LimitSources = ReadonlyArray<AuthorizationDetails | undefined>

const covers = ({ operation_types }: FinancialOperations, type: OperationType) =>
  operation_types?.includes(type) ?? true

/** Milliseconds of rolling windows. */
const rollingTime = { day: 86_400_000, week: 604_800_000, month: 2_592_000_000, grant: Infinity } as const

/** The window of a budget at an instant: from the first millisecond to the one after the last. */
export const windowOf = ({ per, rolling, time_zone = "UTC" }: Budget, at: DateTime.Utc) => {
  if (per === "grant" || rolling === true) {
    return { since: at.epochMilliseconds + 1 - rollingTime[per], until: Infinity }
  }
  const { day, month, weekDay, year } = DateTime.toParts(DateTime.setZone(at, DateTime.zoneMakeNamedUnsafe(time_zone)))
  const first = per === "day" ? day : per === "week" ? day - (weekDay + 6) % 7 : 1
  const [nextMonth, next] = per === "month" ? [month + 1, 1] : [month, first + (per === "week" ? 7 : 1)]
  const midnight = (month: number, day: number) =>
    DateTime.makeZonedUnsafe(Date.UTC(year, month - 1, day), { timeZone: time_zone, adjustForTimeZone: true })
      .epochMilliseconds
  return { since: midnight(month, first), until: midnight(nextMonth, next) }
}

interface CountedLimit {
  readonly operation_types: ReadonlyArray<OperationType> | undefined
  readonly limit: Limit
  readonly remaining: BigDecimal.BigDecimal
  readonly resets_at: DateTime.Utc | null
}

const zero = BigDecimal.fromBigInt(0n)

const countBudget = (
  { operation_types }: FinancialOperations,
  limit: Budget,
  reservations: ReadonlyArray<Reservation>,
  at: DateTime.Utc
): CountedLimit => {
  const { since, until } = windowOf(limit, at)
  const counted = reservations.filter((reservation) =>
    reservation.currency === limit.currency && (operation_types?.includes(reservation.type) ?? true)
    && reservation.at.epochMilliseconds >= since && reservation.at.epochMilliseconds < until
  )
  return {
    operation_types,
    limit,
    remaining: BigDecimal.subtract(
      BigDecimal.fromStringUnsafe(limit.amount),
      BigDecimal.sumAll(counted.map(({ amount }) => amount))
    ),
    resets_at: until === Infinity ? null : DateTime.makeUnsafe(until)
  }
}

const countLimits = (
  sources: LimitSources,
  reservations: ReadonlyArray<Reservation>,
  at: DateTime.Utc
): ReadonlyArray<CountedLimit> =>
  sources.flatMap((details) =>
    (details ?? []).flatMap((detail) => [
      ...(detail.max_amount ?? []).map((limit): CountedLimit => ({
        operation_types: detail.operation_types,
        limit,
        remaining: BigDecimal.fromStringUnsafe(limit.amount),
        resets_at: null
      })),
      ...(detail.budgets ?? []).map((budget) => countBudget(detail, budget, reservations, at))
    ])
  )

const remainingText = ({ limit: { currency }, remaining }: CountedLimit) =>
  formatAmount(BigDecimal.max(remaining, zero), currency)

/** What remains of each limit. */
export const remainingLimits = (
  sources: LimitSources,
  reservations: ReadonlyArray<Reservation>,
  at: DateTime.Utc
): ReadonlyArray<RemainingLimit> =>
  countLimits(sources, reservations, at).map((counted) => ({
    ...counted.operation_types === undefined ? {} : { operation_types: counted.operation_types },
    limit: counted.limit,
    remaining: remainingText(counted),
    resets_at: counted.resets_at
  }))

/**
 * Why the limits refuse a request, or null. Of the limits that it exceeds, the answer names that of which least remains: an amount that
 * fits there fits everywhere.
 */
export const findRefusal = (
  { terms, type }: FinancialRequest,
  sources: LimitSources,
  reservations: ReadonlyArray<Reservation>,
  at: DateTime.Utc
): LimitRefusal | null => {
  const given = sources.filter((details) => details !== undefined)
  if (!given.every((details) => details.some((detail) => covers(detail, type)))) {
    return new OperationNotCovered({ missing: "operation_type" })
  }
  if (terms === undefined) return new TermsRequired()
  const details = given.flat().filter((detail) => covers(detail, type))
  const namesCurrency = ({ budgets = [], max_amount = [] }: FinancialOperations) =>
    [...max_amount, ...budgets].some(({ currency }) => currency === terms.currency)
  if (details.some((detail) => (detail.max_amount ?? detail.budgets) !== undefined && !namesCurrency(detail))) {
    return new OperationNotCovered({ missing: "currency" })
  }
  if (details.some(({ payees }) => payees !== undefined && !payees.includes(terms.payee))) return new PayeeNotAllowed()
  const amount = BigDecimal.fromStringUnsafe(terms.amount)
  const [exceeded] = countLimits(given, reservations, at)
    .filter(({ limit, operation_types, remaining }) =>
      limit.currency === terms.currency && (operation_types?.includes(type) ?? true)
      && BigDecimal.isLessThan(remaining, amount)
    )
    .toSorted((a, b) => BigDecimal.Order(a.remaining, b.remaining))
  if (exceeded === undefined) return null
  const { limit, resets_at } = exceeded
  return new LimitExceeded({ limit, remaining: remainingText(exceeded), resets_at })
}
