/**
 * The code sets of ISO 20022 that banks share: the status of a payment (`ExternalPaymentTransactionStatus1Code`), and why it was not carried
 * out (`ExternalStatusReason1Code`). Each has its meaning from `4Q2023_ExternalCodeSets_v2.json`.
 * The initiation of a credit transfer (pain.001) is in the JSON that the national Open Banking standards have for it, such as those of the
 * United Kingdom, Ireland and New Zealand.
 */
import * as Schema from "effect/Schema"
import type { CommonFailureCode } from "../domain/GatewayFailures.ts"
import { decimalText, isPlain, textLike, textUpTo } from "../domain/PayloadText.ts"
import type { Terms } from "../domain/Terms.ts"
import type { NoEvidence, ProvenResult } from "../submission/providers/ProviderAdapter.ts"

/** Each status of a payment. `BLCK`: the money has left the debtor, and reaches no account. Only a person can settle that. */
const states = {
  RCVD: "submitted",
  PDNG: "submitted",
  ACTC: "submitted",
  PATC: "submitted",
  ACCP: "submitted",
  ACFC: "submitted",
  ACSP: "submitted",
  ACWC: "submitted",
  ACWP: "submitted",
  BLCK: "blocked",
  ACSC: "succeeded",
  ACCC: "succeeded",
  RJCT: "failed"
} as const
type PaymentStatus = keyof typeof states

/** The status from which on a payment has succeeded: the debtor's account is debited (`ACSC`), or the creditor's is credited (`ACCC`). */
export type SettledStatus = "ACSC" | "ACCC"

export const paymentStatuses = Object.keys(states) as ReadonlyArray<PaymentStatus>

/** What clients read of a failure, by code. */
export const failures = { payment_rejected: { message: "The bank rejected the payment." } }

export type FailureCode = keyof typeof failures | CommonFailureCode

/** The reasons that are mapped, by the code that clients read. */
export const reasonCodes: Readonly<Record<string, FailureCode>> = {
  AC01: "account_unknown",
  AC02: "account_unknown",
  AC03: "account_unknown",
  AC04: "account_closed",
  AC05: "account_closed",
  AC06: "not_permitted",
  AC07: "account_closed",
  AG01: "not_permitted",
  AM02: "payment_rejected",
  AM03: "invalid_details",
  AM04: "insufficient_funds",
  AM14: "payment_rejected"
}

/** Of these, the reasons that depend on what the account holds or has paid, or on a block: a later request may succeed. */
export const passingReasons = ["AC06", "AM02", "AM04", "AM14"] as const

/** Why a payment has its status. */
export const StatusReasons = Schema.Array(Schema.Struct({ StatusReasonCode: Schema.optionalKey(Schema.String) }))

/**
 * The result of a payment. A blocked one counts as under way, and before `succeedsAt` so does one that is debited alone: it may be blocked or
 * rejected yet. `codes` maps the reasons of a rejected one: the first that is mapped counts.
 */
export const resultOf = (
  { Status: status, StatusReason = [] }: {
    readonly Status: PaymentStatus
    readonly StatusReason?: typeof StatusReasons.Type
  },
  succeedsAt: SettledStatus,
  codes: Readonly<Record<string, string>>
): ProvenResult => {
  const state = states[status]
  if (state === "blocked" || status === "ACSC" && succeedsAt === "ACCC") return { state: "submitted" }
  if (state !== "failed") return { state }
  return {
    state,
    code: StatusReason.map(({ StatusReasonCode = "" }) => codes[StatusReasonCode]).find((code) => code !== undefined) ??
      "payment_rejected"
  }
}

/** Why a status read of a blocked payment proves nothing. Null: it is not blocked. */
export const blocked = (status: PaymentStatus, payment: string): NoEvidence | null =>
  states[status] !== "blocked" ? null : {
    reason: "unclear",
    detail: "status BLCK: the money has left the debtor, and was not credited",
    question: `Payment ${payment} is blocked (BLCK). Will the money be credited or returned, and when?`
  }

/** The first blank of a payee ends its scheme. */
const scheme = textLike(/^\S{1,40}$/u, "a scheme without blanks, such as UK.OBIE.IBAN").check(isPlain)

const account = {
  SchemeName: scheme,
  Identification: textUpTo(256).check(isPlain),
  SecondaryIdentification: Schema.optionalKey(textUpTo(34).check(isPlain))
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
  /** The bank of the payee. A name alone would tell operators too little. */
  CreditorAgent: Schema.optionalKey(Schema.Struct({
    SchemeName: scheme,
    Identification: textUpTo(256).check(isPlain),
    LEI: Schema.optionalKey(textUpTo(20).check(isPlain)),
    Name: Schema.optionalKey(textUpTo(140)),
    PostalAddress: Part
  })),
  CreditorAccount: Schema.Struct({ ...account, Name: textUpTo(350), Proxy: Part }),
  CreditorPostalAddress: Part,
  UltimateCreditor: Part,
  UltimateDebtor: Part,
  RegulatoryReporting: Schema.optionalKey(Schema.Array(Schema.Json)),
  RemittanceInformation: Part,
  SupplementaryData: Part
})

/** A further part of the payee, before a bar of its own. Bars in a text are doubled, so no text can imitate a part. */
const part = (label: string, text: string | undefined) => text === undefined ? "" : `${label} ${doubled(text)} | `
const doubled = (text: string) => text.replaceAll("|", "||")

/**
 * What it moves, and to whom: by all that selects the account, and by no name. The account is the last: operators see the end of a payee.
 * Throws a `TypeError` if the payee is a proxy, such as a telephone number, or if another one gets the money in the end: limits and approvals
 * would decide about the account alone.
 */
export const creditTransferTerms = (
  { CreditorAccount: payee, CreditorAgent: agent, InstructedAmount, UltimateCreditor }: typeof CreditTransfer.Type
): Terms => {
  if (payee.Proxy !== undefined || UltimateCreditor !== undefined) {
    throw new TypeError("a transfer with terms must have no Proxy and no UltimateCreditor")
  }
  return {
    amount: InstructedAmount.Amount,
    currency: InstructedAmount.Currency,
    payee: part("agent", agent && `${agent.SchemeName} ${agent.Identification}`)
      + part("LEI", agent?.LEI)
      + part("secondary", payee.SecondaryIdentification)
      + doubled(`${payee.SchemeName} ${payee.Identification}`)
  }
}
