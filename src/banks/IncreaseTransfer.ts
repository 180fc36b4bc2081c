/**
 * The transfers that the adapter for Increase takes as payloads. Names of members are those of the bank's documents; amounts are decimal text in
 * payloads and cents on the wire.
 */
import * as Schema from "effect/Schema"
import { decimalText, minorUnits, textLike, textUpTo } from "../domain/PayloadText.ts"
import type { Terms } from "../domain/Terms.ts"

/** US dollars. The amount field of ACH has ten digits of cents. */
const Dollars = decimalText({ whole: 8, fraction: 2, expected: "an amount in dollars above zero, such as \"12.50\"" })

/** The bank takes no other, and no member for it: a client that means euros is refused. */
const currency = Schema.Literal("USD")

/** The payload of an `ach_transfer`: a credit to an account at another bank. */
export const AchTransfer = Schema.Struct({
  /** The own account that pays. */
  account_id: textUpTo(200),
  amount: Dollars,
  currency,
  /** The payee: an external account that the bank knows, or else routing and account number. */
  external_account_id: Schema.optionalKey(textUpTo(200)),
  routing_number: Schema.optionalKey(textLike(/^[0-9]{9}$/u, "a routing number of nine digits")),
  account_number: Schema.optionalKey(textUpTo(17)),
  funding: Schema.optionalKey(Schema.Literals(["checking", "savings"])),
  individual_name: Schema.optionalKey(textUpTo(22)),
  company_name: Schema.optionalKey(textUpTo(16)),
  company_entry_description: Schema.optionalKey(textUpTo(10)),
  standard_entry_class_code: Schema.optionalKey(
    Schema.Literals(["corporate_credit_or_debit", "prearranged_payments_and_deposit", "internet_initiated"])
  ),
  statement_descriptor: textUpTo(200)
}).check(
  Schema.makeFilter(
    ({ account_number, external_account_id, routing_number }) =>
      external_account_id === undefined
        ? account_number !== undefined && routing_number !== undefined
        : account_number === undefined && routing_number === undefined,
    { expected: "either external_account_id, or account_number and routing_number" }
  )
)

/** The payload of an `account_transfer`: between two own accounts. */
export const AccountTransfer = Schema.Struct({
  account_id: textUpTo(200),
  amount: Dollars,
  currency,
  destination_account_id: textUpTo(200),
  description: textUpTo(200)
})

/** The terms of an `ach_transfer`, for its endpoint. */
export const achTransferTerms = (transfer: typeof AchTransfer.Type): Terms => ({
  amount: transfer.amount,
  currency: transfer.currency,
  payee: transfer.external_account_id ?? `${transfer.routing_number} ${transfer.account_number}`
})

/** The terms of an `account_transfer`, for its endpoint. */
export const accountTransferTerms = (transfer: typeof AccountTransfer.Type): Terms => ({
  amount: transfer.amount,
  currency: transfer.currency,
  payee: transfer.destination_account_id
})

/** The body of the request: the payload without its currency, in cents. */
export const bodyOf = (
  { currency: _currency, ...transfer }: typeof AchTransfer.Type | typeof AccountTransfer.Type
) => ({
  ...transfer,
  amount: minorUnits(transfer.amount, 2)
})
