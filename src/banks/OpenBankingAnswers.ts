/**
 * What the answers of a bank of the Open Banking standard mean: every status of a payment and of a consent, and every documented error.
 */
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import {
  NotSent,
  type ProvenResult,
  ProviderReference,
  StatusAnswer,
  SubmissionAnswer,
  submissionAnswerOf,
  Uncertain
} from "../submission/providers/ProviderAdapter.ts"

/** What clients read of a failure, by code. */
export const failures = {
  access_refused: { message: "The bank does not let this payer or this gateway make the payment." },
  account_closed: { message: "The account is closed." },
  account_unknown: { message: "The bank does not know the account." },
  after_cut_off: { message: "The payment reached the bank after the cut-off time of its consent." },
  consent_mismatch: { message: "The payment differs from its consent." },
  consent_unknown: { message: "The bank does not know the consent of the payer." },
  insufficient_funds: { message: "The account does not hold the amount." },
  invalid_payment: { message: "The bank does not accept the details of the payment." },
  payment_rejected: { message: "The bank rejected the payment." },
  reauthentication_required: { message: "The payer must authorise the payment at the bank again." }
}
type Code = keyof typeof failures

/**
 * Reasons why a bank did not carry out a payment. Each has its meaning from the code sets of the standard, in the repository
 * OpenBankingUK/External_Internal_CodeSets at commit de0fe9d: `U…` from `OBExternalStatusReason1Code` of `OB_Internal_Codeset.csv`, the
 * others from `ExternalStatusReason1Code` of `4Q2023_ExternalCodeSets_v2.json` (ISO 20022).
 */
const codes: Readonly<Record<string, Code>> = {
  ...Object.fromEntries(
    ["U001", "U002", "U003", "U004", "U005", "U010", "U021", "U022", "U023", "U026", "U027"].map((
      code
    ) => [code, "invalid_payment"])
  ),
  U008: "consent_mismatch",
  U011: "consent_unknown",
  U012: "after_cut_off",
  // A limit of the consent, which only a consent to several payments has.
  U014: "payment_rejected",
  U028: "reauthentication_required",
  AC01: "account_unknown",
  AC02: "account_unknown",
  AC03: "account_unknown",
  AC04: "account_closed",
  AC05: "account_closed",
  AC06: "access_refused",
  AC07: "account_closed",
  AG01: "access_refused",
  AM02: "payment_rejected",
  AM03: "invalid_payment",
  AM04: "insufficient_funds",
  AM14: "payment_rejected"
}

/**
 * Reasons that depend on time, on what the account holds or has paid, or on the payer. As an error they are not final: another copy of the
 * request may have paid before, and so caused the error, or may pay later. As the reason of a rejected payment they are.
 */
const passing = new Set(["U003", "U012", "U014", "U028", "AC06", "AM02", "AM04", "AM14"])

/**
 * The code of an error by which the bank never orders the payment, because each copy of the request gets it. Codes of duplicates and of used
 * consents are not among them either.
 */
const finalCode = (code: string): Code | undefined => passing.has(code) ? undefined : codes[code]

/** The gateway's own headers and signature. An operator can repair the cause. */
const ownFaults = new Set(["U006", "U007", "U015", "U016", "U017", "U018", "U019", "U020"])

/** Each status of a payment (ISO 20022). `BLCK`: the money has left the debtor, and reaches no account. Only a person can settle that. */
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

/** The members that count. The evidence has these alone: no account, no name, no free text. */
const Reasons = Schema.optionalKey(Schema.Array(Schema.Struct({ StatusReasonCode: Schema.optionalKey(Schema.String) })))

const Payment = Schema.Struct({
  Data: Schema.Struct({
    DomesticPaymentId: ProviderReference,
    ConsentId: Schema.String,
    Status: Schema.Literals(Object.keys(states) as ReadonlyArray<keyof typeof states>),
    StatusUpdateDateTime: Schema.String,
    StatusReason: Reasons
  })
})
type Payment = typeof Payment.Type

const Instant = Schema.DateTimeUtcFromString

const Consent = Schema.Struct({
  Data: Schema.Struct({
    ConsentId: Schema.String,
    // The last two are of the code set, and not yet of the document.
    Status: Schema.Literals(["AWAU", "AUTH", "RJCT", "COND", "CANC", "EXPD"]),
    CreationDateTime: Instant,
    StatusUpdateDateTime: Instant,
    CutOffDateTime: Schema.optionalKey(Instant)
  })
})
type Consent = typeof Consent.Type

const Refusal = Schema.Struct({
  Errors: Schema.NonEmptyArray(Schema.Struct({ ErrorCode: Schema.String.check(Schema.isPattern(/^[A-Z0-9]{4}$/u)) }))
})

/** An answer about another consent than that of the operation is not understood. */
const onBodyOf = <T extends { readonly Data: { readonly ConsentId: string } }, A>(
  schema: Schema.ConstraintDecoder<T>,
  consentId: string,
  meaning: (body: T, answer: HttpProvider.HttpAnswer) => A
): HttpProvider.Decode<A, HttpProvider.NotUnderstood> =>
  HttpProvider.onBody<T, A, HttpProvider.NotUnderstood>(
    schema,
    (body, answer) =>
      body.Data.ConsentId === consentId
        ? meaning(body, answer)
        : Effect.fail(new HttpProvider.NotUnderstood({ reason: `status ${answer.status}, about another consent` }))
  )

/** The bank repeats the interaction id of the request, so it says which operation an answer is about. */
const operationIn = ({ headers }: HttpProvider.HttpAnswer): string | null => headers["x-fapi-interaction-id"] ?? null

const evident = (payment: Payment, answer: HttpProvider.HttpAnswer) => ({
  names: { reference: payment.Data.DomesticPaymentId, operation_id: operationIn(answer) },
  evidence: { status: answer.status, body: payment }
})

const failureOf = ({ Data: { StatusReason = [] } }: Payment): Code =>
  StatusReason.map(({ StatusReasonCode = "" }) => codes[StatusReasonCode]).find((code) => code !== undefined)
    ?? "payment_rejected"

/** A blocked payment counts as under way. */
const proven = (payment: Payment, answer: HttpProvider.HttpAnswer) => {
  const state = states[payment.Data.Status]
  const result: ProvenResult = state === "failed"
    ? { state, code: failureOf(payment) }
    : { state: state === "blocked" ? "submitted" : state }
  return { ...result, ...evident(payment, answer) }
}

export const submitted = (consentId: string) =>
  onBodyOf(Payment, consentId, (payment, answer) => submissionAnswerOf(proven(payment, answer)))

/** Final by `finalCode` alone. After any other code a request of this operation may have paid, so the consent decides. */
export const refused = HttpProvider.onBody(
  Refusal,
  ({ Errors }, answer): SubmissionAnswer | Effect.Effect<never, NotSent | Uncertain> => {
    const reasons = Errors.map(({ ErrorCode }) => ErrorCode)
    const reason = `the bank answered ${reasons.join(", ")}`
    if (reasons.every((code) => ownFaults.has(code))) {
      return Effect.fail(new NotSent({ reason, isRefused: true, isLocal: true }))
    }
    const [code, ...others] = reasons.map(finalCode)
    if (code === undefined || others.some((other) => other === undefined)) return Effect.fail(new Uncertain({ reason }))
    return SubmissionAnswer.Rejected({
      code,
      names: { reference: null, operation_id: operationIn(answer) },
      evidence: { status: answer.status, body: { Errors } }
    })
  }
)

/** The bank did not look at the request, because it takes none of this kind here. An operator can repair the address. */
export const wrongEndpoint: HttpProvider.Decode<never, NotSent> = ({ status }) =>
  Effect.fail(new NotSent({ reason: `status ${status}`, isRefused: true, isLocal: true }))

const blocked = ({ DomesticPaymentId }: Payment["Data"]): StatusAnswer =>
  StatusAnswer.NotProven({
    reason: "unclear",
    detail: "status BLCK: the money has left the debtor, and was not credited",
    question: `Payment ${DomesticPaymentId} is blocked (BLCK). Will the money be credited or returned, and when?`
  })

const known = (consentId: string) =>
  onBodyOf(
    Payment,
    consentId,
    (payment, answer): StatusAnswer =>
      states[payment.Data.Status] === "blocked" ? blocked(payment.Data) : StatusAnswer.Proven(proven(payment, answer))
  )

/**
 * What a bank documents about the end of a consent, beyond the standard. Give it only if the bank also documents that a used consent stays
 * `COND`: otherwise a consent that was used and then expired would look unused.
 */
export interface ConsentEnds {
  /** The bank refuses a payment after the `CutOffDateTime` of its consent. Default: it may carry it out on the next day. */
  readonly refusesAfterCutOff?: boolean
  /** The bank refuses a payment so long after the `CreationDateTime` of its consent. */
  readonly lifetime?: Duration.Input
  /** How long after that a payment may still be invisible. Add the greatest difference between the clocks of bank and database. */
  readonly visibleAfter: Duration.Input
}

/** From when on the bank refuses a payment under the consent, if that is known. */
const refusedFrom = (
  { CreationDateTime, CutOffDateTime, Status, StatusUpdateDateTime }: Consent["Data"],
  ends?: ConsentEnds
) => {
  const all = [
    ...["RJCT", "CANC", "EXPD"].includes(Status) ? [StatusUpdateDateTime] : [],
    ...ends?.refusesAfterCutOff === true && CutOffDateTime !== undefined ? [CutOffDateTime] : [],
    ...ends?.lifetime === undefined ? [] : [DateTime.addDuration(CreationDateTime, ends.lifetime)]
  ]
  return all.length === 0 ? null : all.reduce(DateTime.min)
}

const ofConsent = (consentId: string, ends?: ConsentEnds) =>
  onBodyOf(Consent, consentId, ({ Data }, answer): StatusAnswer => {
    const operation_id = operationIn(answer)
    if (Data.Status === "COND") {
      return StatusAnswer.NotProven({
        reason: "ordered",
        detail: "the consent is used (COND), so a payment was ordered under it",
        question: questionAbout(operation_id ?? "of this operation", Data.ConsentId)
      })
    }
    const from = refusedFrom(Data, ends)
    return StatusAnswer.NotFound({
      names: { reference: null, operation_id },
      evidence: {
        status: answer.status,
        body: { Data: { ConsentId: Data.ConsentId, Status: Data.Status } },
        refused_from: from === null ? null : DateTime.formatIso(from)
      },
      ...from === null ? {} : { refusedFrom: from }
    })
  })

/** The answer to a status read: a payment or a consent. */
export const read = (consentId: string, ends?: ConsentEnds) =>
  HttpProvider.firstOf(known(consentId), ofConsent(consentId, ends))

const questionAbout = (id: string, consent: string): string =>
  `Which DomesticPaymentId did you create under the consent ${consent}, for the x-idempotency-key ${id}, and what is its Status?`
