/**
 * The terms of an operation: the amount, the currency and the payee, for the people who decide about it. A type of operation declares how
 * its payload tells them. Clients never see them.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { minorUnits, textLike } from "./PayloadText.ts"

/** Currencies whose amounts have other than two digits after the point (ISO 4217, minor units). */
const unusualDigits = new Map(
  Object.entries({
    0: "JPY BIF CLP DJF GNF ISK KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW"
  }).flatMap(([digits, codes]) => codes.split(" ").map((code) => [code, Number(digits)] as const))
)

/** Digits after the point of amounts in this currency. */
const digitsOf = (currency: string): number => unusualDigits.get(currency) ?? 2

/** Currencies without decimals. @internal */
export const wholeCurrencies = [...unusualDigits.keys()].filter((currency) => digitsOf(currency) === 0)

const digitsExpected = "an amount with no more digits after the point than its currency has"

/**
 * The amount in the smallest unit of its currency (ISO 4217): 1250 of 12.50 EUR, 750 of 750 JPY, 1234 of 1.234 KWD. For banks that take
 * integers. Throws a `TypeError` if the amount has more digits than its currency, or is no safe integer in that unit.
 */
export const toMinorUnits = ({ amount, currency }: { readonly amount: string; readonly currency: string }): number => {
  const digits = digitsOf(currency)
  const [, fraction = ""] = /^\d+(?:\.(\d+))?$/u.exec(amount) ?? [null, "excess"]
  const units = fraction.length <= digits ? minorUnits(amount, digits) : NaN
  if (Number.isSafeInteger(units)) return units
  throw new TypeError(`expected ${digitsExpected}`)
}

/** An amount of a currency. @internal */
export const moneyMembers = {
  /** Decimal text, with at most the digits of the currency after the point (ISO 4217). */
  amount: textLike(/^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,4})?$/u, "an amount such as \"12.50\""),
  currency: textLike(/^[A-Z]{3}$/u, "a currency code of ISO 4217, such as EUR")
}

/** An amount with the digits of its currency. @internal */
export const formatAmount = (amount: BigDecimal.BigDecimal, currency: string): string => {
  const digits = digitsOf(currency)
  const { value } = BigDecimal.scale(amount, digits)
  const text = String(value).padStart(digits + 1, "0")
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`
}

/** A check for payloads with an `amount` and a `currency`: 12.505 EUR and 1.5 JPY have too many digits. Its failures name `amount`. */
export const hasDigitsOfCurrency: SchemaAST.Filter<{ readonly amount: string; readonly currency: string }> = Schema
  .makeFilter(
    ({ amount, currency }) =>
      (amount.split(".")[1] ?? "").length <= digitsOf(currency)
      || { path: ["amount"], issue: new SchemaIssue.InvalidValue({ expected: digitsExpected }) },
    { expected: digitsExpected }
  )

/** @internal */
export const payeeMember = textLike(/^.{1,255}$/su, "a payee of 1 to 255 characters")

/** What an operation moves, and to whom. */
export const Terms = Schema.Struct({
  ...moneyMembers,
  /** Who gets the money, as operators and the provider name them: an IBAN, an account, a name. */
  payee: payeeMember,
  /** False: the end of the operation erases the terms, together with the payload. Default: the ledger keeps them for ever. */
  kept: Schema.optionalKey(Schema.Boolean)
}).check(hasDigitsOfCurrency)
export type Terms = typeof Terms.Type

/** Finds the terms in a payload, as its schema decodes it. The same payload gives the same terms at any time. */
export type TermsOf<Payload> = (payload: Payload) => Terms

/** Terms that the ledger refuses, unless the request was accepted before. */
const unfit = {} as Terms

/** The terms of a payload. An error of the function may quote the payload, so it is told to no one. @internal */
export const termsIn = <Payload>(termsOf: TermsOf<Payload>, payload: Payload): Terms => {
  try {
    return termsOf(payload)
  } catch {
    return unfit
  }
}

/** @internal */
export const isTerms: (value: unknown) => value is Terms = Schema.is(Terms)

/** The members that people decide about. @internal */
export const termsMembers = ["amount", "currency", "payee"] as const

/** The terms as operators see them: masked, or as they are. @internal */
export const ShownTerms = Schema.Struct({ amount: Schema.String, currency: Schema.String, payee: Schema.String })
/** @internal */
export type ShownTerms = typeof ShownTerms.Type

const mask = "••••"

/** What an operator sees of terms whose key this process does not have. @internal */
export const unreadableTerms: ShownTerms = { amount: mask, currency: mask, payee: mask }

/** Whether a person sees what the operation moves. @internal */
export const isReadable = ({ currency }: ShownTerms): boolean => currency !== mask

const maskPart = (part: string): string => part.length < 12 ? mask : `${mask}${part.slice(-4)}`

/** Between the parts of a payee that select the account together, such as an account number and a roll number. @internal */
export const betweenParts = " | "

/**
 * Hides the amount and the payee. The last four characters of a long payee, such as an IBAN, tell the operations of a list apart. Of a payee
 * with several parts, each part shows its own.
 *
 * @internal
 */
export const maskTerms = ({ currency, payee }: Terms): ShownTerms => ({
  amount: mask,
  currency,
  payee: payee.split(betweenParts).map(maskPart).join(betweenParts)
})
