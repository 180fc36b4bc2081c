/**
 * What the messages of a bank of the Open Banking standard mean: every status of a payment and of a consent, every documented error, its
 * signatures (Read/Write API Profile 4.0, "Message Signing"), and its events (Event Notification API 4.0), which are signed as its answers are.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { textLike } from "../domain/PayloadText.ts"
import { isRecent } from "../oauth/JsonSignature.ts"
import { makeSecurityEventReceiver, type SecurityEventOptions } from "../oauth/SecurityEvents.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import { ProviderReference } from "../submission/providers/ProviderAdapter.ts"
import * as Iso20022 from "./iso20022.ts"
import * as Signatures from "./messageSignatures.ts"
import { type ConsentEnds, readOfConsent } from "./paymentConsent.ts"

/** What clients read of a failure, by code. */
export const failures = {
  ...Iso20022.failures,
  after_cut_off: { message: "The payment reached the bank after the cut-off time of its consent." },
  consent_mismatch: { message: "The payment differs from its consent." },
  consent_unknown: { message: "The bank does not know the consent of the payer." },
  reauthentication_required: { message: "The payer must authorise the payment at the bank again." }
}

const invalid = ["U001", "U002", "U003", "U004", "U005", "U010", "U021", "U022", "U023", "U026", "U027"]

/**
 * Reasons why a bank did not carry out a payment. `U…` has its meaning from `OBExternalStatusReason1Code` of `OB_Internal_Codeset.csv`, in the
 * repository OpenBankingUK/External_Internal_CodeSets at commit de0fe9d, which has the file of `iso20022` as well.
 */
const codes: Readonly<Record<string, keyof typeof failures | Iso20022.FailureCode>> = {
  ...Iso20022.reasonCodes,
  ...Object.fromEntries(invalid.map((code) => [code, "invalid_details"])),
  U008: "consent_mismatch",
  U011: "consent_unknown",
  U012: "after_cut_off",
  // A limit of the consent, which only a consent to several payments has.
  U014: "payment_rejected",
  U028: "reauthentication_required"
}

/**
 * Reasons that depend on time, on what the account holds or has paid, or on the payer. As an error they are not final: another copy of the
 * request may have paid before, and so caused the error, or may pay later. As the reason of a rejected payment they are.
 */
const passing: ReadonlySet<string> = new Set(["U003", "U012", "U014", "U028", ...Iso20022.passingReasons])

/** The gateway's own headers and signature. An operator can repair the cause. */
const ownFaults = new Set(["U006", "U007", "U015", "U016", "U017", "U018", "U019", "U020"])

/** The bank repeats the interaction id of the request, so it says which operation an answer is about. */
const operationIn = ({ headers }: HttpProvider.HttpAnswer): string | null => headers["x-fapi-interaction-id"] ?? null

const Payment = Schema.Struct({
  Data: Schema.Struct({
    DomesticPaymentId: ProviderReference,
    ConsentId: Schema.String,
    Status: Schema.Literals(Iso20022.paymentStatuses),
    StatusUpdateDateTime: Schema.String,
    StatusReason: Schema.optionalKey(Iso20022.StatusReasons)
  })
})

/** The evidence has the members of the schema alone: no account, no name, no free text. */
const payment = (succeedsAt: Iso20022.SettledStatus) =>
  HttpProvider.declareOrder({
    schema: Payment,
    names: ({ Data }, answer) => ({ reference: Data.DomesticPaymentId, operation_id: operationIn(answer) }),
    result: ({ Data }) => Iso20022.resultOf(Data, succeedsAt, codes),
    unproven: ({ Data }) => Iso20022.blocked(Data.Status, Data.DomesticPaymentId)
  })

const AboutConsent = Schema.Struct({ Data: Schema.Struct({ ConsentId: Schema.String }) })
/** An answer about another consent than that of the operation is not understood. */
const about = (id: string) => HttpProvider.onlyAbout(AboutConsent, "consent", ({ Data }) => Data.ConsentId === id)

export const submitted = (consentId: string, succeedsAt: Iso20022.SettledStatus) =>
  about(consentId)(payment(succeedsAt).submitted)

/**
 * Final are only errors by which the bank never orders the payment, because each copy of the request gets them. Codes of duplicates and of
 * used consents are not among them. After any other code a request of this operation may have paid, so the consent decides.
 */
export const refused = HttpProvider.errorList({
  schema: Schema.Struct({
    Errors: Schema.NonEmptyArray(Schema.Struct({ ErrorCode: textLike(/^[A-Z0-9]{4}$/u, "a code") }))
  }),
  codesIn: ({ Errors }) => Errors.map(({ ErrorCode }) => ErrorCode),
  finalCode: (code) => passing.has(code) ? undefined : codes[code],
  isRepairable: (code) => ownFaults.has(code),
  names: (answer) => ({ reference: null, operation_id: operationIn(answer) })
})

const Consent = Schema.Struct({
  Data: Schema.Struct({
    ConsentId: Schema.String,
    // The last two are of the codes for other consents. A payer may reinstate such a one, so it never ends here.
    Status: Schema.Literals(["AWAU", "AUTH", "RJCT", "COND", "CANC", "EXPD"]),
    CreationDateTime: Schema.DateTimeUtcFromString,
    StatusUpdateDateTime: Schema.DateTimeUtcFromString,
    CutOffDateTime: Schema.optionalKey(Schema.DateTimeUtcFromString)
  })
})
const questionAbout = (consent: string, key = "of this operation") =>
  `Which DomesticPaymentId did you create under the consent ${consent}, for the x-idempotency-key ${key}, and what is its Status?`

const ofConsent = (ends: ConsentEnds | undefined) =>
  HttpProvider.onBody(Consent, ({ Data }, answer) => {
    const { ConsentId: id, Status: status } = Data
    const operationId = operationIn(answer)
    const consent = { id, status, operationId, createdAt: Data.CreationDateTime, cutOff: Data.CutOffDateTime }
    const endedAt = status === "RJCT" ? Data.StatusUpdateDateTime : null
    const question = questionAbout(id, operationId ?? undefined)
    const evidence = { status: answer.status, body: { Data: { ConsentId: id, Status: status } } }
    return readOfConsent({ ...consent, isUsed: status === "COND", endedAt, question }, ends, evidence)
  })

/** The answer to a status read: a payment or a consent. */
export const read = (consentId: string, succeedsAt: Iso20022.SettledStatus, ends: ConsentEnds | undefined) =>
  about(consentId)(HttpProvider.firstOf(payment(succeedsAt).read, ofConsent(ends)))

const profile = { header: "x-jws-signature", algorithm: "PS256" }
const iat = "http://openbanking.org.uk/iat"
const iss = "http://openbanking.org.uk/iss"
const tan = "http://openbanking.org.uk/tan"
const directory = "openbanking.org.uk"

/**
 * How the gateway signs. `issuer` at the Open Banking Directory: the ids of organisation and software statement, `ORG/SOFTWARE`. Versions up
 * to 3.1.3 asked for `b64: false`; version 4.0 has no `b64`.
 */
export interface SigningOptions extends Signatures.SigningKey {
  /** The domain of the trust anchor that has the public key. Default: `openbanking.org.uk`. */
  readonly trustAnchor?: string
}

/** Whose signatures prove something. `issuer` at the Open Banking Directory: the id of its organisation. */
export interface BankKeys extends Signatures.VerifyingKeys {
  /** The domains of trusted anchors. Default: `openbanking.org.uk` alone. */
  readonly trustAnchors?: ReadonlyArray<string>
}

export const makeSigner = ({ trustAnchor = directory, ...key }: SigningOptions) =>
  Signatures.makeMessageSigner(profile, key, (now) => ({ [iat]: now, [iss]: key.issuer, [tan]: trustAnchor }))

export const makeVerifier = ({ trustAnchors = [directory], ...bank }: BankKeys, maxAge = Signatures.signatureAge) =>
  Signatures.makeMessageVerifier(profile, bank, {
    [iat]: isRecent(maxAge),
    [iss]: (value) => value === bank.issuer,
    [tan]: (value) => trustAnchors.includes(value as string)
  })

/** Whose events count. */
export interface EventOptions extends SecurityEventOptions {
  /** The keys of the bank: those of its answers. */
  readonly bank: BankKeys
}

/** Makes the receiver of a bank's events. Dies with a `TypeError` if the options cannot be right. */
export const makeEventReceiver = Effect.fnUntraced(function*({ bank, ...options }: EventOptions) {
  const verifier = yield* makeVerifier(bank, Infinity) // An event has an age of its own, and may be repeated as it is.
  const update = { event: "urn:uk:org:openbanking:events:resource-update", subject: "http://openbanking.org.uk/rid" }
  return yield* Effect.sync(() => makeSecurityEventReceiver(options, { ...update, verifier }))
})
