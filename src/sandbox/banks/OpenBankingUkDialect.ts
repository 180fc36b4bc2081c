/**
 * A bank of the Open Banking standard (United Kingdom, 4.0) as a dialect of the sandbox: consents and domestic payments.
 *
 * - A consent pays at most once, so its id is the key of the engine. It is `AWAU` in the answer that creates it, then `AUTH`, and `COND`
 *   from its payment on. A payment that arrives more than an hour after it (`CutOffDateTime`) is refused. The id has the time of the
 *   creation.
 * - The `x-idempotency-key` is known for 24 hours. Within them, a repetition gets the payment again; after them it is a new request.
 * - Requests and answers with a body are signed. The public keys are at `/keys`; any client gets its token at `/token`. Consents and
 *   reads take that token, and payments that of the payer, which is any other.
 *
 * A payment names its outcome in `RemittanceInformation.Unstructured`: see `instructionIn`. Consents and keys are in memory. After a restart
 * the bank takes each id of a consent for one that the payer has authorised, and signs with another key, unless it was given one.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as crypto from "node:crypto"
import { isDeepStrictEqual } from "node:util"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import {
  type Answer,
  answered,
  type Demand,
  type Dialect,
  jsonAnswer,
  type RequestHead,
  type Saying
} from "../Dialect.ts"
import { digest } from "../Faults.ts"
import type { SandboxFailure } from "../Protocol.ts"
import type { KnownSubmission } from "../SandboxOutcome.ts"
import { decodePercent, describeIssues, instructionIn } from "../Wire.ts"

/** Milliseconds. */
const hour = 3_600_000
const keyLifetime = 24 * hour
/** From the debit of the payer (`ACSC`) to the credit of the payee (`ACCC`). */
const creditedAfter = 5000

const root = "/open-banking/v4.0/pisp"

const clientToken = "token-of-the-client"

const Initiation = Schema.StructWithRest(
  Schema.Struct({
    InstructedAmount: Schema.Struct({ Amount: Schema.String, Currency: Schema.String }),
    RemittanceInformation: Schema.optionalKey(
      Schema.StructWithRest(Schema.Struct({ Unstructured: Schema.optionalKey(Schema.Array(Schema.String)) }), [
        Schema.Record(Schema.String, Schema.Json)
      ])
    )
  }),
  [Schema.Record(Schema.String, Schema.Json)]
)

const PaymentRequest = Schema.Struct({
  Data: Schema.Struct({ ConsentId: Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,128}$/u)), Initiation }),
  Risk: Schema.Record(Schema.String, Schema.Json)
})
const ConsentRequest = Schema.Struct({ Data: Schema.Struct({ Initiation }), Risk: PaymentRequest.fields.Risk })

const decodePayment = Schema.decodeUnknownResult(Schema.fromJsonString(PaymentRequest))
const decodeConsent = Schema.decodeUnknownResult(Schema.fromJsonString(ConsentRequest))

/** What the bank keeps of a payment. */
const Echo = Schema.Struct({ ConsentId: Schema.String, Initiation, key: Schema.String })
type Echo = typeof Echo.Type
const isEcho = Schema.is(Echo)

interface Consent {
  readonly createdAt: number
  /** Null: the bank knows the id alone, after a restart. */
  readonly request: typeof ConsentRequest.Type | null
}

const keyOf = ({ headers }: RequestHead): string => String(headers["x-idempotency-key"])

const someInitiation: typeof Initiation.Type = {
  InstructionIdentification: "other",
  EndToEndIdentification: "other",
  InstructedAmount: { Amount: "1.00", Currency: "GBP" },
  CreditorAccount: { SchemeName: "UK.OBIE.SortCodeAccountNumber", Identification: "08080021325698", Name: "Other" }
}

const links = (path: string) => ({ Links: { Self: `https://bank.example${root}${path}` }, Meta: {} })

/** Reasons of rejected payments by the failures of the sandbox. Other codes are reasons of the bank. */
const reasons: Readonly<Record<string, string>> = {
  insufficient_funds: "AM04",
  account_closed: "AC04",
  limit_exceeded: "U014"
}
const reasonOf = (code: string): string => reasons[code] ?? code

const claims = ["iat", "iss", "tan"].map((name) => `http://openbanking.org.uk/${name}`)

/** The claims of a detached signature. Null: it has another form. */
const claimsIn = (jws: string): Readonly<Record<string, unknown>> | null => {
  const [header, payload, signature, ...more] = jws.split(".")
  if (payload !== "" || signature === undefined || more.length > 0) return null
  try {
    return JSON.parse(Buffer.from(header!, "base64url").toString()) as Readonly<Record<string, unknown>>
  } catch {
    return null
  }
}

const pss = { padding: crypto.constants.RSA_PKCS1_PSS_PADDING, saltLength: crypto.constants.RSA_PSS_SALTLEN_DIGEST }

/** The text that a signature signs: the body in base64url, unless `b64` is false (RFC 7797). */
const signedText = (header: string, body: string, isEncoded: boolean): string =>
  `${header}.${isEncoded ? Buffer.from(body).toString("base64url") : body}`

export interface OpenBankingUkBank {
  /** The `iss` of the bank's signatures. */
  readonly issuer?: string
  /** The public key of the client. Without it, the form of a signature counts alone. */
  readonly clientKey?: crypto.KeyObject
  /** The private RSA key of the bank. Default: a new one. */
  readonly bankKey?: crypto.KeyObject
  /** Milliseconds from the creation of a consent until the bank refuses payments under it. Default: an hour. */
  readonly consentLifetime?: number
}

/** Of a consent of this bank. Null: the id has another form. */
const creationIn = (id: string): number | null => {
  const [, time] = /^consent-([0-9a-z]{1,9})-[0-9a-f]{24}$/u.exec(id) ?? []
  return time === undefined ? null : Number.parseInt(time, 36)
}

/** A bank without consents. Two sandboxes need two. */
export const makeOpenBankingUkDialect = (
  { bankKey, clientKey, consentLifetime = hour, issuer = "sandbox-bank" }: OpenBankingUkBank = {}
): Dialect => {
  const consents = new Map<string, Consent>()
  /** Ids of consents, by key and body of the request for them. */
  const created = new Map<string, string>()
  /** The payment that a key made last. */
  const keys = new Map<string, { readonly consentId: string; readonly at: number }>()
  let signingKey: { readonly key: crypto.KeyObject; readonly jwk: crypto.JsonWebKey; readonly kid: string } | undefined
  const bankKeys = () => {
    if (signingKey !== undefined) return signingKey
    const key = bankKey ?? crypto.generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
    const jwk = crypto.createPublicKey(key).export({ format: "jwk" })
    return signingKey = { key, jwk, kid: `bank-key-${digest("key", jwk.n!).slice(0, 8)}` }
  }

  const sign = (body: string, now: number): string => {
    const [iat, iss, tan] = claims as [string, string, string]
    const { key, kid } = bankKeys()
    const protectedHeader = {
      alg: "PS256",
      kid,
      [iat]: Math.floor(now / 1000),
      [iss]: issuer,
      [tan]: "openbanking.org.uk",
      crit: claims
    }
    const header = Buffer.from(JSON.stringify(protectedHeader)).toString("base64url")
    const signature = crypto.sign("sha256", Buffer.from(signedText(header, body, true)), { key, ...pss })
    return `${header}..${signature.toString("base64url")}`
  }

  /** Why the bank refuses the signature of a request. Null: it accepts it. */
  const wrongSignature = (jws: string, body: string): string | null => {
    const header = claimsIn(jws)
    if (header === null) return "U018 the signature is malformed"
    const isEncoded = header["b64"] !== false
    const known = [...isEncoded ? [] : ["b64"], ...claims]
    if (
      header["alg"] !== "PS256" || typeof header["kid"] !== "string" ||
      JSON.stringify(header["crit"]) !== JSON.stringify(known)
    ) {
      return "U016 the signature has a claim with a wrong value"
    }
    if (claims.some((claim) => header[claim] === undefined)) return "U017 the signature lacks a claim"
    const [encoded, , signature] = jws.split(".") as [string, string, string]
    const text = Buffer.from(signedText(encoded, body, isEncoded))
    return clientKey === undefined ||
        crypto.verify("sha256", text, { key: clientKey, ...pss }, Buffer.from(signature, "base64url"))
      ? null
      : "U015 the signature is wrong"
  }

  const withHeaders = (
    { headers, now }: RequestHead,
    answer: Answer,
    interaction = headers["x-fapi-interaction-id"]
  ): Answer => ({
    ...answer,
    headers: {
      ...answer.headers,
      "x-fapi-interaction-id": typeof interaction === "string" ? interaction : crypto.randomUUID(),
      ...answer.text === "" ? {} : { "x-jws-signature": sign(answer.text, now) }
    }
  })
  const errors = (head: RequestHead, status: number, code: string, message = "The simulator refuses this."): Answer =>
    withHeaders(head, jsonAnswer(status, { Errors: [{ ErrorCode: code, Message: message }] }))
  /** The standard has no body here. */
  const empty = (head: RequestHead, status: number, headers: Readonly<Record<string, string>> = {}): Answer =>
    withHeaders(head, { status, contentType: "application/json", text: "", headers })
  /** A reason of the form `U004 text`. */
  const invalid = (head: RequestHead, reason: string): Answer => {
    const { code = "U002", text = reason } = /^(?<code>U\d{3}) (?<text>.*)$/su.exec(reason)?.groups ?? {}
    return errors(head, 400, code, text.slice(0, 500))
  }

  const consentOf = (id: string, now: number): Consent => {
    const known = consents.get(id) ?? { createdAt: creationIn(id) ?? now, request: null }
    consents.set(id, known)
    return known
  }

  const consentAnswer = (head: RequestHead, status: number, id: string, state: string, echo?: Echo): Answer => {
    const { createdAt, request } = consentOf(id, head.now)
    const at = formatTimestamp(createdAt)
    return withHeaders(
      head,
      jsonAnswer(status, {
        Data: {
          ConsentId: id,
          CreationDateTime: at,
          Status: state,
          StatusUpdateDateTime: at,
          CutOffDateTime: formatTimestamp(createdAt + consentLifetime),
          Initiation: request?.Data.Initiation ?? echo?.Initiation ?? someInitiation
        },
        Risk: request?.Risk ?? {},
        ...links(`/domestic-payment-consents/${id}`)
      })
    )
  }

  const createConsent = (head: RequestHead) => (body: string): Answer => {
    const problem = problemOf(head, body)
    if (problem !== null) return invalid(head, problem)
    const request = decodeConsent(body)
    if (Result.isFailure(request)) return invalid(head, `U002 ${describeIssues(request.failure)}`)
    const name = digest("consent", keyOf(head), body).slice(0, 24)
    const id = created.get(name) ?? `consent-${head.now.toString(36)}-${name}`
    created.set(name, id)
    if (!consents.has(id)) consents.set(id, { createdAt: head.now, request: request.success })
    return consentAnswer(head, 201, id, "AWAU")
  }

  const problemOf = ({ headers }: RequestHead, body: string): string | null => {
    const key = headers["x-idempotency-key"]
    if (typeof key !== "string") return "U007 x-idempotency-key is missing"
    if (!/^(?!\s)(.*)(\S)$/u.test(key) || key.length > 40) return "U006 x-idempotency-key has 1 to 40 characters"
    const signature = headers["x-jws-signature"]
    return signature === undefined ? "U019 x-jws-signature is missing" : wrongSignature(String(signature), body)
  }

  const statusOf = ({ returnedAt, settledAt, status }: KnownSubmission, now: number): string => {
    if (status.status === "pending") return "ACSP"
    if (status.status === "failed" || returnedAt !== null) return "RJCT"
    return now - settledAt! < creditedAfter ? "ACSC" : "ACCC"
  }

  const paymentAnswer = (head: RequestHead, httpStatus: number, known: KnownSubmission, isFirst: boolean): Answer => {
    const { acceptedAt, settledAt, status } = known
    const echo = isEcho(known.echo) ? known.echo : { ConsentId: "consent-other", Initiation: someInitiation, key: "" }
    const id = status.reference
    const isForeign = status.idempotency_key !== echo.ConsentId
    return withHeaders(
      head,
      jsonAnswer(httpStatus, {
        Data: {
          DomesticPaymentId: id,
          ConsentId: isForeign ? "consent-other" : echo.ConsentId,
          CreationDateTime: formatTimestamp(acceptedAt),
          Status: isFirst && status.status === "pending" ? "RCVD" : statusOf(known, head.now),
          StatusUpdateDateTime: formatTimestamp(settledAt ?? acceptedAt),
          ...status.status === "failed" && {
            StatusReason: [{ StatusReasonCode: reasonOf(status.code), StatusReasonDescription: status.message }]
          },
          Initiation: echo.Initiation
        },
        ...links(`/domestic-payments/${id}`)
      }),
      isForeign ? crypto.randomUUID() : undefined
    )
  }

  /** A repetition: the payment again if the key is still known, else a second payment of the consent, which the bank refuses. */
  const repeated = (head: RequestHead, known: KnownSubmission, isSame: boolean): Answer => {
    const isKnown = isEcho(known.echo) && known.echo.key === head.headers["x-idempotency-key"]
      && head.now - known.acceptedAt < keyLifetime
    if (!isKnown) return errors(head, 400, "U009", "The consent is used")
    return isSame
      ? paymentAnswer(head, 201, known, false)
      : errors(head, 400, "U002", "The body differs under this key")
  }

  /** It was refused at once, so there is no payment. */
  const isRefused = ({ settlement }: KnownSubmission) => settlement.outcome === "rejected"

  const isConsent = ({ path }: RequestHead) => path.startsWith(`${root}/domestic-payment-consents/`)
  const idIn = ({ path }: RequestHead): string => decodePercent(path.split("/").at(-1)!)

  const write = (saying: Saying, head: RequestHead): Answer => {
    switch (saying._tag) {
      case "Taken":
        if (!saying.isFirst) return repeated(head, saying.known, saying.isSame)
        keys.set(keyOf(head), {
          consentId: saying.known.status.idempotency_key,
          at: saying.known.acceptedAt
        })
        return paymentAnswer(head, 201, saying.known, true)
      case "Status": {
        const { known } = saying
        if (head.method === "POST") return paymentAnswer(head, 201, known, true)
        if (!isConsent(head)) {
          return isRefused(known)
            ? errors(head, 400, "U011")
            : paymentAnswer(head, 200, known, false)
        }
        return consentAnswer(
          head,
          200,
          idIn(head),
          isRefused(known) ? "AUTH" : "COND",
          isEcho(known.echo) ? known.echo : undefined
        )
      }
      case "NotFound":
        return isConsent(head) ? consentAnswer(head, 200, idIn(head), "AUTH") : errors(head, 400, "U011")
      case "Refused":
        return refusal(head, saying.failure)
      case "TooLate":
        return errors(head, 400, "U012")
      case "DuplicateKey":
        return errors(head, 409, "U029")
      case "Invalid":
        return invalid(head, saying.reason)
      case "BodyTooLarge":
        return errors(head, 400, "U010")
      case "Unauthorized":
        return empty(head, 401)
      case "TooManyRequests":
        return empty(head, 429, { "retry-after": String(saying.retryAfterSeconds) })
    }
  }
  const refusal = (head: RequestHead, { code, message }: SandboxFailure) =>
    errors(head, 400, reasonOf(code).slice(0, 4), message)

  const demandOf = (head: RequestHead): Demand | null => {
    const { headers, method, path } = head
    if (path === "/keys") {
      const { jwk, kid } = bankKeys()
      return answered(jsonAnswer(200, { keys: [{ ...jwk, kid, use: "sig", alg: "PS256" }] }))
    }
    if (path === "/token") {
      return answered(jsonAnswer(200, { access_token: clientToken, token_type: "Bearer", expires_in: 300 }))
    }
    if (!path.startsWith(`${root}/`)) return null
    const [collection, id, ...more] = path.slice(root.length + 1).split("/")
    if (collection !== "domestic-payments" && collection !== "domestic-payment-consents" || more.length > 0) {
      return answered(errors(head, 404, "U011"))
    }
    const token = /^Bearer (\S+)$/u.exec(String(headers["authorization"]))?.[1]
    const isOfPayer = token !== clientToken
    const needsPayer = collection === "domestic-payments" && method === "POST"
    if (token === undefined || isOfPayer !== needsPayer) return answered(empty(head, 401))
    if (method !== (id === undefined ? "POST" : "GET")) return answered(empty(head, 405))
    if (method === "POST") {
      if (!String(headers["content-type"]).startsWith("application/json")) return answered(empty(head, 415))
      return collection === "domestic-payments" ? { _tag: "Submit", key: null } : answered(createConsent(head))
    }
    return collection === "domestic-payments"
      ? { _tag: "ReadByReference", reference: idIn(head) }
      : { _tag: "ReadByKey", key: idIn(head) }
  }

  return {
    demandOf,
    submissionOf: (head, body) =>
      Result.gen(function*() {
        const problem = problemOf(head, body)
        if (problem !== null) return yield* Result.fail(problem)
        const { Data: { ConsentId, Initiation }, Risk } = yield* Result.mapError(
          decodePayment(body),
          (error) => `U002 ${describeIssues(error)}`
        )
        const key = keyOf(head)
        const used = keys.get(key)
        if (used !== undefined && used.consentId !== ConsentId && head.now - used.at < keyLifetime) {
          return yield* Result.fail("U002 x-idempotency-key was used for another consent")
        }
        const { createdAt, request } = consentOf(ConsentId, head.now)
        if (request !== null && !isDeepStrictEqual(request, { Data: { Initiation }, Risk })) {
          return yield* Result.fail("U008 the payment differs from its consent")
        }
        const instruction = yield* instructionIn(Initiation.RemittanceInformation?.Unstructured?.[0] ?? "")
        const echo = { ConsentId, Initiation, key }
        return { key: ConsentId, type: "domestic_payment", instruction, sendBefore: createdAt + consentLifetime, echo }
      }),
    write
  }
}
