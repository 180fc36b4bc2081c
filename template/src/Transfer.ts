/** A transfer: what a client requests, what the ledger keeps until it is settled, and what the bank can carry out. */
import * as Schema from "effect/Schema"
import { hasDigitsOfCurrency } from "financial-agents-gateway/api/MutationEndpoint"

/** A text. Language-model agents read the description, and people the expectation of a wrong one. */
const text = (pattern: RegExp, expected: string) =>
  Schema.String.annotate({ description: expected }).check(Schema.isPattern(pattern, { expected }))

const Fields = Schema.Struct({
  amount: text(/^(?=.*[1-9])(?:0|[1-9][0-9]{0,9})(?:\.[0-9]{1,4})?$/u, "an amount above zero, such as \"12.50\""),
  currency: text(/^[A-Z]{3}$/u, "a currency code of ISO 4217, such as EUR"),
  iban: text(/^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/u, "an IBAN without spaces")
})

/** What operators decide about: amount, currency and payee. Clients never see them beside the operation. */
export const transferTerms = ({ amount, currency, iban }: typeof Fields.Type) => ({ amount, currency, payee: iban })

/** The amount is text, because clients and servers may round JSON numbers. It has the digits of its currency at most: JPY has none. */
export const Transfer = Fields.check(hasDigitsOfCurrency)
export type Transfer = typeof Transfer.Type

/** What `npm start` suggests, and tests request. */
export const exampleTransfer: Transfer = { amount: "750.00", currency: "EUR", iban: "DE89370400440532013000" }
