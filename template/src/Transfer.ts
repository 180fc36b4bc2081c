/**
 * A transfer: what a client requests, what the ledger keeps until it is settled, and what the bank can carry out.
 */
import * as Schema from "effect/Schema"

const text = (pattern: RegExp, expected: string) => Schema.String.check(Schema.isPattern(pattern, { expected }))

/** The amount is text, because clients and servers may round JSON numbers. */
export const Transfer = Schema.Struct({
  amount: text(/^(?=.*[1-9])(?:0|[1-9][0-9]{0,9})\.[0-9]{2}$/u, "an amount above zero, such as \"12.50\""),
  currency: text(/^[A-Z]{3}$/u, "a currency code of ISO 4217, such as EUR"),
  iban: text(/^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/u, "an IBAN without spaces")
})
export type Transfer = typeof Transfer.Type

/** What operators decide about: amount, currency and payee. Clients never see them beside the operation. */
export const transferTerms = ({ amount, currency, iban }: Transfer) => ({ amount, currency, payee: iban })
