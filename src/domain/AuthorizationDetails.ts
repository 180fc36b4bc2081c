/**
 * The limits of a grant: `authorization_details` of the type `financial_operations` (RFC 9396). An operation must satisfy every object that
 * covers its type, and at least one must cover it.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { invalidMembers, strict } from "./InvalidMember.ts"
import { OperationType } from "./Operation.ts"
import { hasDigitsOfCurrency, moneyMembers, payeeMember } from "./Terms.ts"
import { Timestamp } from "./Timestamp.ts"

/** The type of the objects that limit operations. Objects of other types concern other resources. @internal */
export const financialOperations = "financial_operations"

/** Most objects, most entries of each list, and most bytes of all objects as JSON. The ledger reads them at each acceptance. */
const bounds = { objects: 20, entries: 20, payees: 1000, bytes: 32_768 } as const

const listOf = <S extends Schema.Constraint>(schema: S, longest: number) =>
  Schema.Array(schema).check(Schema.isMinLength(1), Schema.isMaxLength(longest))

const isPositive = Schema.makeFilter(({ amount }: { readonly amount: string }) => /[1-9]/u.test(amount), {
  expected: "an amount greater than zero"
})

/** The most that one operation moves in a currency. */
const MaxAmount = Schema.Struct(moneyMembers).check(hasDigitsOfCurrency, isPositive)
type MaxAmount = typeof MaxAmount.Type

/**
 * A name of the IANA database. PostgreSQL reads other texts as zones, too, some with another sign, and abbreviations as its settings say.
 */
const TimeZone = Schema.String.check(
  Schema.isPattern(
    /^(?:UTC|(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)\/[A-Za-z0-9_+\-/]{1,50})$/u,
    { expected: "UTC, or a time zone with its area, such as Europe/Berlin" }
  ),
  Schema.makeFilter((name: string) => Option.isSome(DateTime.zoneMakeNamed(name)), {
    expected: "a time zone that exists"
  })
)

/** What all operations in a window may move in a currency. */
export const Budget = Schema.Struct({
  ...moneyMembers,
  /** `grant`: the life of the grant. */
  per: Schema.Literals(["day", "week", "month", "grant"]),
  /** Of the calendar by which windows begin at midnight, and weeks on Monday. Default: UTC. */
  time_zone: Schema.optionalKey(TimeZone),
  /** The window is the last day, seven days or month before the acceptance. It has no time zone. */
  rolling: Schema.optionalKey(Schema.Literal(true))
}).check(
  hasDigitsOfCurrency,
  isPositive,
  Schema.makeFilter(
    ({ per, rolling, time_zone }) => [per === "grant", rolling, time_zone].filter(Boolean).length <= 1,
    { expected: "a time zone or \"rolling\", not both, and none of them per grant" }
  )
)
export type Budget = typeof Budget.Type

/** An operation in this currency that moves more than the amount waits for an approval. */
const ApprovalLine = Schema.Struct(moneyMembers).check(hasDigitsOfCurrency)

const namesCurrenciesOnce = (member: string) =>
  Schema.makeFilter(
    (lines: ReadonlyArray<{ readonly currency: string }>) =>
      new Set(lines.map(({ currency }) => currency)).size === lines.length,
    { expected: `each currency once in "${member}"` }
  )

/** Which operations wait for the approval of a person: those that one of the members names. */
const ApprovalRule = Schema.Struct({
  /** A currency that it does not name always waits. The amount 0 lets each operation wait that moves something. */
  above: Schema.optionalKey(listOf(ApprovalLine, bounds.entries).check(namesCurrenciesOnce("above"))),
  /** Operations to a payee to whom no operation of the grant has succeeded. */
  new_payees: Schema.optionalKey(Schema.Literal(true))
}).check(
  Schema.makeFilter(({ above, new_payees }) => above !== undefined || new_payees !== undefined, {
    expected: "\"above\" or \"new_payees\""
  })
)
type ApprovalRule = typeof ApprovalRule.Type

/** Limits of operations. Each member that is absent limits nothing. */
export const FinancialOperations = Schema.Struct({
  type: Schema.Literal(financialOperations),
  /** The types of operations that the object covers. Absent: every type. */
  operation_types: Schema.optionalKey(listOf(OperationType, bounds.entries)),
  max_amount: Schema.optionalKey(listOf(MaxAmount, bounds.entries).check(namesCurrenciesOnce("max_amount"))),
  /** A currency that neither `max_amount` nor `budgets` names is refused, if one of them is present. */
  budgets: Schema.optionalKey(listOf(Budget, bounds.entries)),
  /** The only payees, exactly as `terms.payee` names them. */
  payees: Schema.optionalKey(listOf(payeeMember, bounds.payees)),
  /** Which operations wait for an approval. Absent: none. */
  approval: Schema.optionalKey(ApprovalRule)
})
export type FinancialOperations = typeof FinancialOperations.Type

/** The limits of a grant or of a credential. */
export const AuthorizationDetails = Schema.Array(FinancialOperations).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(bounds.objects),
  Schema.makeFilter((details) => new TextEncoder().encode(JSON.stringify(details)).length <= bounds.bytes, {
    expected: `at most ${bounds.bytes} bytes of JSON`
  })
)
export type AuthorizationDetails = typeof AuthorizationDetails.Type

/** The limits cannot be enforced as they are given, so nothing is permitted by them. */
export class InvalidAuthorizationDetails
  extends Schema.TaggedError<InvalidAuthorizationDetails>()("InvalidAuthorizationDetails", { message: Schema.String })
{}

const decodeDetails = Schema.decodeUnknownEffect(AuthorizationDetails, strict)

const isObjectOfRfc = (value: unknown) => Predicate.hasProperty(value, "type") && typeof value.type === "string"

/**
 * The limits in `authorization_details` of a token, an introspection response or a command. Null: no object limits operations. It
 * fails if an object of the type `financial_operations` has an unknown member or an invalid one.
 *
 * @internal
 */
export const decodeAuthorizationDetails = (
  value: unknown
): Effect.Effect<AuthorizationDetails | null, InvalidAuthorizationDetails> => {
  if (!Array.isArray(value) || !value.every(isObjectOfRfc)) {
    return Effect.fail(
      new InvalidAuthorizationDetails({ message: "authorization_details: Expected objects that each have a type" })
    )
  }
  const ours = value.filter(({ type }) => type === financialOperations)
  if (ours.length === 0) return Effect.succeed(null)
  return Effect.mapError(decodeDetails(ours), (error) =>
    new InvalidAuthorizationDetails({
      message: invalidMembers(error)
        .map(({ message, path }) => `${["authorization_details", ...path].join(".")}: ${message}`)
        .join("; ")
    }))
}

/** What a refused operation exceeded: a budget, or the most of one operation, whose schema would drop the members of a budget. */
export const Limit = Schema.Union([Budget, MaxAmount])
export type Limit = typeof Limit.Type

/** The operation would exceed a limit of the grant. The ledger recorded nothing. */
export class LimitExceeded extends Schema.TaggedError<LimitExceeded>()("LimitExceeded", {
  limit: Limit,
  /** What one operation may move at most now, as decimal text. */
  remaining: Schema.String,
  /** When the next window of the budget begins. Null: the limit is none of the calendar. */
  resets_at: Schema.NullOr(Timestamp)
}) {
  override get message() {
    const { amount, currency } = this.limit
    const window = "per" in this.limit ? `per ${this.limit.per}` : "for one operation"
    return `the grant permits ${amount} ${currency} ${window}, and ${this.remaining} ${currency} remain`
  }
}

/** The grant permits payees, and that of the operation is none of them. */
export class PayeeNotAllowed extends Schema.TaggedError<PayeeNotAllowed>()("PayeeNotAllowed", {}) {
  override get message() {
    return "the grant does not permit this payee"
  }
}

/** The grant has limits, and none permits the type of the operation, or its currency. */
export class OperationNotCovered extends Schema.TaggedError<OperationNotCovered>()("OperationNotCovered", {
  missing: Schema.Literals(["operation_type", "currency"])
}) {
  override get message() {
    return this.missing === "currency"
      ? "the grant does not permit this currency"
      : "the grant does not permit operations of this type"
  }
}

/** The grant has limits, and the mutation endpoint tells no terms of the operation. Only the developer of the endpoint can correct that. */
export class TermsRequired extends Schema.TaggedError<TermsRequired>()("TermsRequired", {}) {
  override get message() {
    return "the grant has limits, and this type of operation declares no terms to compare with them"
  }
}

/** Why the limits of a grant refuse an operation. */
export type LimitRefusal = LimitExceeded | PayeeNotAllowed | OperationNotCovered | TermsRequired

/** What remains of a limit. */
export const RemainingLimit = Schema.Struct({
  /** The types of operations that the limit concerns. Absent: every type. */
  operation_types: Schema.optionalKey(Schema.Array(OperationType)),
  limit: Limit,
  /** Decimal text, never below zero: what one operation may move at most now. */
  remaining: Schema.String,
  /** When the next window of the budget begins. Null: the limit is none of the calendar. */
  resets_at: Schema.NullOr(Timestamp)
})
export type RemainingLimit = typeof RemainingLimit.Type
