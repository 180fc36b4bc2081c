/**
 * Schemas of the text in payloads, and exact arithmetic with decimal text. Amounts are text, because a float loses cents: 1.15 × 100 is
 * 114.99999999999999.
 */
import * as Schema from "effect/Schema"
import { isVisible } from "./VisibleText.ts"

/** Text that fits the pattern. `expected` is what a refusal tells the client, such as "a currency such as GBP". */
export const textLike = (pattern: RegExp, expected: string) =>
  Schema.String.check(Schema.isPattern(pattern, { expected }))

/** Text of 1 to `longest` UTF-16 code units. */
export const textUpTo = (longest: number) => Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longest))

/** Text that PostgreSQL can keep. @internal */
export const isStorable = Schema.makeFilter((text: string) => text.isWellFormed() && !text.includes("\0"), {
  expected: "well-formed text without NUL"
})

/**
 * Text that names a payee. Hidden characters could reorder the text that an approver reads, or make two payees look the same. No bank has
 * them in the number of an account. @internal
 */
export const isPlain = Schema.makeFilter(isVisible, {
  expected: "text without control characters, invisible characters and blanks other than the space"
})

const aboveZero = /^(?=.*[1-9])(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/u

/** Decimal text above zero, without sign and leading zeros, with at most so many digits before and after the point. */
export const decimalText = ({ expected, fraction, whole }: {
  readonly whole: number
  readonly fraction: number
  readonly expected: string
}) =>
  textLike(aboveZero, expected).check(
    Schema.makeFilter((text) => text.split(".")[0]!.length <= whole && digitsAfterPoint(text) <= fraction, { expected })
  )

const digitsAfterPoint = (decimal: string) => (decimal.split(".")[1] ?? "").length

/**
 * The decimal text in its smallest unit: 115 of "1.15" with two digits. Use it with a schema that bounds the text: it expects no more digits
 * after the point, and a safe integer as the result.
 */
export const minorUnits = (decimal: string, digits: number): number => {
  const [whole, fraction = ""] = decimal.split(".")
  return Number(whole + fraction.padEnd(digits, "0"))
}

/** The product of two decimal texts as decimal text with two digits after the point, rounded up: a bound of what is paid. */
export const productInCents = (one: string, other: string): string => {
  const unit = 10n ** BigInt(digitsAfterPoint(one) + digitsAfterPoint(other))
  const cents = (BigInt(one.replace(".", "")) * BigInt(other.replace(".", "")) * 100n + unit - 1n) / unit
  return `${cents / 100n}.${String(cents % 100n).padStart(2, "0")}`
}
