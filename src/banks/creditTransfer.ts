/**
 * The initiation of a credit transfer (pain.001 of ISO 20022) in the JSON that the national Open Banking standards have for it, such as those
 * of the United Kingdom, Ireland and New Zealand.
 */
import * as Schema from "effect/Schema"
import { decimalText, textLike, textUpTo } from "../domain/PayloadText.ts"
import type { Terms } from "../domain/Terms.ts"

const account = {
  SchemeName: textUpTo(40),
  Identification: textUpTo(256),
  SecondaryIdentification: Schema.optionalKey(textUpTo(34))
}

/** A part that the bank alone reads. */
const Part = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))

/** The members that count are checked. The others go to the bank as they are. */
export const CreditTransfer = Schema.Struct({
  InstructionIdentification: textUpTo(35),
  EndToEndIdentification: textUpTo(35),
  LocalInstrument: Schema.optionalKey(textUpTo(50)),
  InstructedAmount: Schema.Struct({
    Amount: decimalText({ whole: 13, fraction: 5, expected: "an amount above zero, such as \"12.50\"" }),
    Currency: textLike(/^[A-Z]{3}$/u, "a currency such as GBP")
  }),
  DebtorAccount: Schema.optionalKey(
    Schema.Struct({ ...account, Name: Schema.optionalKey(textUpTo(350)), Proxy: Part })
  ),
  CreditorAgent: Part,
  CreditorAccount: Schema.Struct({ ...account, Name: textUpTo(350), Proxy: Part }),
  CreditorPostalAddress: Part,
  UltimateCreditor: Part,
  UltimateDebtor: Part,
  RegulatoryReporting: Schema.optionalKey(Schema.Array(Schema.Json)),
  RemittanceInformation: Part,
  SupplementaryData: Part
})

/** What it moves, and to whom. */
export const creditTransferTerms = (transfer: typeof CreditTransfer.Type): Terms => ({
  amount: transfer.InstructedAmount.Amount,
  currency: transfer.InstructedAmount.Currency,
  payee: `${transfer.CreditorAccount.SchemeName} ${transfer.CreditorAccount.Identification}`
})
