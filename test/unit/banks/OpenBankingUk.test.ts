/**
 * The adapter for banks of the Open Banking standard gives each documented answer its meaning, believes only answers with the bank's
 * signature, and refuses settings that cannot be right. The cases of the contract kit that this bank cannot meet stand below, with the
 * reason.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, DateTime, Effect, Exit, Layer, Redacted, type Schema } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { ResourceOwner } from "../../../src/domain/Grant.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import { ProviderAdapter, ProviderReference } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import {
  consentBody,
  errorBody,
  foreignConsent,
  gatewayKeys,
  openBankingClaims,
  optionsAt,
  otherRequests,
  payment,
  paymentBody,
  signatureOf,
  signedAnswer,
  signingKey
} from "../../fixtures/banks/openBankingUk.ts"
import { cert, key } from "../../fixtures/http/TlsServer.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

const operation = operationOf({ type: OperationType.make("domestic_payment") })
const reference = ProviderReference.make("payment-1")

interface Answered {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Schema.Json
}

/** The client of a bank that answers each payment and each read like this. */
const answering = (answer: Answered) =>
  HttpClient.make((request) => {
    const { body, headers, status }: Answered = otherRequests({ path: new URL(request.url).pathname }) ?? answer
    const text = body === undefined ? "" : JSON.stringify(body)
    return Effect.succeed(HttpClientResponse.fromWeb(
      request,
      new Response(text, {
        status,
        headers: { "content-type": "application/json", "content-length": String(text.length), ...headers }
      })
    ))
  })

const adapterWith = (client: HttpClient.HttpClient, options: Partial<OpenBankingUk.OpenBankingUkOptions> = {}) =>
  Effect.map(
    Layer.build(Layer.provide(
      OpenBankingUk.at({ ...optionsAt("http://127.0.0.1:1"), ...options }),
      Layer.succeed(HttpClient.HttpClient, client)
    )),
    (context) => Context.get(context, ProviderAdapter)
  )

const submitted = (answer: Answered) =>
  Effect.flatMap(
    adapterWith(answering(answer)),
    ({ submit }) =>
      Effect.match(submit(operation, payment), { onFailure: (failure) => failure, onSuccess: (said) => said })
  )

/** By the bank's id, or without it by the consent. */
const read = (answer: Answered, by: ProviderReference | null = reference) =>
  Effect.flatMap(adapterWith(answering(answer)), ({ readStatus }) => readStatus(operation, by, payment))

const signed = (status: number, body: Schema.Json) => signedAnswer(operation.id, status, body)

const creditor = payment.Data.Initiation.CreditorAccount
const withInitiation = (more: object) => ({
  ...payment,
  Data: { ...payment.Data, Initiation: { ...payment.Data.Initiation, ...more } }
})

const sent = (payload: typeof payment) => ({
  payload,
  request: ({ id }: ProviderContract.Submitted) => ({
    path: "/open-banking/v4.0/pisp/domestic-payments",
    headers: {
      "x-idempotency-key": id,
      "x-fapi-interaction-id": id,
      authorization: "Bearer token-of-the-payer-for-consent-1",
      "content-type": "application/json"
    },
    body: JSON.stringify(payload)
  })
})

const about = (status: number, body: (reference: string) => Schema.Json) => (subject: ProviderContract.AnswerSubject) =>
  signedAnswer(subject.id, status, body(subject.reference))

describe("The adapter for Open Banking UK follows the contract:", () => {
  const cases = ProviderContract.cases({
    adapter: (baseUrl) => OpenBankingUk.at(optionsAt(baseUrl)),
    operation: { type: "domestic_payment", resource_owner: "owner-1" },
    terms: OpenBankingUk.domesticPaymentTerms,
    expects: [
      sent(payment),
      sent(withInitiation({ InstructedAmount: { Amount: "1.15", Currency: "GBP" } }) as typeof payment),
      sent(withInitiation({ InstructedAmount: { Amount: "165.88", Currency: "EUR" } }) as typeof payment),
      sent(withInitiation({ InstructedAmount: { Amount: "750", Currency: "JPY" } }) as typeof payment),
      sent(withInitiation({ CreditorAccount: { ...creditor, Identification: "08080099999999" } }) as typeof payment)
    ],
    invalidPayloads: [
      withInitiation({ InstructedAmount: { Amount: "0.00", Currency: "GBP" } }),
      { ...payment, Data: { ...payment.Data, ConsentId: "" } }
    ],
    idempotencyKey: ({ headers }) => headers["x-idempotency-key"],
    references: { own: "payment-1", foreign: "payment-2" },
    otherRequests,
    answers: {
      submission: {
        acknowledged: about(201, (id) => paymentBody("RCVD", id)),
        succeeded: about(201, (id) => paymentBody("ACSC", id)),
        refused: { answer: about(400, () => errorBody("U008")), code: "consent_mismatch" },
        duplicate: about(409, () => errorBody("U029")),
        unauthorized: () => ({ status: 401, headers: { "Content-Length": "0" } }),
        unavailable: () => ({ status: 429, headers: { "Content-Length": "0", "Retry-After": "2" } })
      },
      status: {
        pending: about(200, (id) => paymentBody("ACSP", id)),
        succeeded: about(200, (id) => paymentBody("ACCC", id)),
        failed: { answer: about(200, (id) => paymentBody("RJCT", id)), code: "payment_rejected" },
        notFound: about(200, () => consentBody("AUTH"))
      }
    }
  })
  for (const { name, run } of cases) it.effect(name, () => run)
})

describe("Each status of a payment", () => {
  type Known = [status: string, "Acknowledged" | "Succeeded" | "Rejected", "submitted" | "succeeded" | "failed"]
  it.effect.each<Known>([
    ...["RCVD", "PDNG", "ACTC", "PATC", "ACCP", "ACFC", "ACSP", "ACWC", "ACWP"]
      .map((status): Known => [status, "Acknowledged", "submitted"]),
    ["ACSC", "Succeeded", "succeeded"],
    ["ACCC", "Succeeded", "succeeded"],
    ["RJCT", "Rejected", "failed"]
  ])("%s: the answer is %s, and a read proves %s", ([status, answer, state]) =>
    Effect.gen(function*() {
      const names = { reference, operation_id: operation.id }
      assert.deepInclude(yield* submitted(signed(201, paymentBody(status))), { _tag: answer, names })
      assert.deepInclude(yield* read(signed(200, paymentBody(status))), { _tag: "Proven", state, names })
    }))

  it.effect("BLCK waits for a person, who gets the question", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* submitted(signed(201, paymentBody("BLCK"))))._tag, "Acknowledged")
      const said = yield* read(signed(200, paymentBody("BLCK")))
      assert.deepInclude(said, { _tag: "NotProven", reason: "unclear" })
      assert.match(said._tag === "NotProven" ? said.question! : "", /^Payment payment-1 is blocked/)
    }))

  it.effect("an unknown one is not understood", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* submitted(signed(201, paymentBody("ACXX"))))._tag, "Uncertain")
      assert.deepInclude(yield* read(signed(200, paymentBody("ACXX"))), { _tag: "NotProven", reason: "unclear" })
    }))

  it.effect.each([["AM04", "insufficient_funds"], ["AC04", "account_closed"], ["XXXX", "payment_rejected"]])(
    "RJCT for the reason %s fails with %s",
    ([StatusReasonCode, code]) =>
      Effect.gen(function*() {
        const body = paymentBody("RJCT", "payment-1", { StatusReason: [{ StatusReasonCode: StatusReasonCode! }] })
        assert.deepInclude(yield* read(signed(200, body)), { state: "failed", code })
      })
  )

  it.effect("RJCT for several reasons fails with the first that has a code", () =>
    Effect.gen(function*() {
      const StatusReason = ["XXXX", "AC04", "AM04"].map((StatusReasonCode) => ({ StatusReasonCode }))
      const said = yield* read(signed(200, paymentBody("RJCT", "payment-1", { StatusReason })))
      assert.deepInclude(said, { state: "failed", code: "account_closed" })
    }))
})

describe("Each documented error of a payment", () => {
  const empty = (status: number): Answered => ({ status, headers: { "content-length": "0" } })
  type Documented = [name: string, answer: Answered, said: object]
  const uncertain = (...codes: ReadonlyArray<string>) =>
    codes.flatMap((code) =>
      [400, 403].map((status): Documented => {
        return [`${status} with ${code}`, signed(status, errorBody(code)), { _tag: "Uncertain" }]
      })
    )
  const ownFault = { _tag: "NotSent", isRefused: true, isLocal: true }
  it.effect.each<Documented>([
    ["400 with a mistake in the payment", signed(400, errorBody("U002")), {
      _tag: "Rejected",
      code: "invalid_details"
    }],
    ["400 of a closed account", signed(400, errorBody("AC07")), { _tag: "Rejected", code: "account_closed" }],
    // These depend on time, on the account or on the payer: an earlier copy may have caused them, and a later one may pay.
    ...uncertain("U003", "U012", "U014", "U028", "AC06", "AM02", "AM04", "AM14"),
    // Its first copy may have paid: the edge of a bank may forward a request twice.
    ...uncertain("U000", "U009", "U013", "U029", "U030", "U034", "U035", "U038", "U042", "DUPL", "DU04", "AM05"),
    ...uncertain("TKSG", "XXXX"),
    ["400 with a final and another code", signed(400, errorBody("U002", "U029")), { _tag: "Uncertain" }],
    ["400 with an own fault and another code", signed(400, errorBody("U015", "U029")), { _tag: "Uncertain" }],
    ["400 of the gateway's signature", signed(400, errorBody("U015")), ownFault],
    ["401 of the payer's token", empty(401), { ...ownFault, isOfOperation: true }],
    ["403", signed(403, errorBody("AG01")), { _tag: "Rejected", code: "not_permitted" }],
    ["404", signed(404, errorBody("U011")), { _tag: "Uncertain", isUndeclared: true }],
    ["405", empty(405), ownFault],
    // A framework gives it after it carried out a request.
    ["406", empty(406), { _tag: "Uncertain", reason: "the provider answered 406" }],
    ["409", signed(409, errorBody("U029")), { _tag: "Uncertain", reason: "the provider answered 409" }],
    ["415", empty(415), ownFault],
    ["429", empty(429), { _tag: "NotSent", isRefused: true }],
    ["500", signed(500, errorBody("U000")), { _tag: "Uncertain", reason: "the provider answered 500" }],
    ["503", empty(503), { _tag: "Uncertain" }]
  ])("%s", ([, answer, said]) =>
    Effect.gen(function*() {
      assert.deepInclude({ ...(yield* submitted(answer)) }, said)
    }))
})

describe("A signature", () => {
  const body = paymentBody("ACSC")
  const text = JSON.stringify(body)
  const other = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
  const claims = (more: object) => signatureOf(text, more)

  it.effect.each<[name: string, signature: string | undefined]>([
    ["that is missing", undefined],
    ["that is none", "e30"],
    ["of another body", signatureOf("{}")],
    ["by another key", signatureOf(text, {}, other)],
    ["by an unknown key", claims({ kid: "key-9" })],
    ["of another party", claims({ "http://openbanking.org.uk/iss": "another-bank" })],
    ["of another trust anchor", claims({ "http://openbanking.org.uk/tan": "example.com" })],
    ["from the future", claims({ "http://openbanking.org.uk/iat": 3600 })],
    ["with a critical claim of unknown meaning", claims({ crit: [...openBankingClaims(0).crit, "exp"], exp: 1 })],
    ["without critical claims that bind it", claims({ alg: "RS256" })],
    ["for another type", claims({ typ: "JWT" })]
  ])("%s: the answer proves nothing", ([, signature]) =>
    Effect.gen(function*() {
      const headers = {
        "x-fapi-interaction-id": operation.id,
        ...signature === undefined ? {} : { "x-jws-signature": signature }
      }
      const said = yield* submitted({ status: 201, headers, body })
      assert.deepInclude(said, { _tag: "Uncertain", isUndeclared: true })
      assert.match("reason" in said ? said.reason! : "", /status 201, with(?:out)? a .*signature/)
      assert.deepInclude(yield* read({ status: 200, headers, body }), { _tag: "NotProven", reason: "unclear" })
    }))

  it.effect("of the body as it is, with b64 false, is believed", () =>
    Effect.gen(function*() {
      const signature = claims({ b64: false, crit: ["b64", ...openBankingClaims(0).crit] })
      const headers = { "x-fapi-interaction-id": operation.id, "x-jws-signature": signature }
      assert.strictEqual((yield* submitted({ status: 201, headers, body }))._tag, "Succeeded")
    }))

  it.effect.each<[form: string, b64: false | undefined]>([["version 4.0", undefined], ["b64 false", false]])(
    "of the gateway is detached and PS256, in the form of %s",
    ([, b64]) =>
      Effect.gen(function*() {
        let seen: { readonly jws: string; readonly body: string } | undefined
        const client = HttpClient.make((request) => {
          if (request.body._tag === "Uint8Array" && request.url.endsWith("/domestic-payments")) {
            seen = { jws: request.headers["x-jws-signature"]!, body: new TextDecoder().decode(request.body.body) }
          }
          const other = otherRequests({ path: new URL(request.url).pathname })
          const answer = other === undefined
            ? new Response("", { status: 500 })
            : Response.json(other.body, { status: other.status })
          return Effect.succeed(HttpClientResponse.fromWeb(request, answer))
        })
        const { signing } = optionsAt("http://127.0.0.1:1")
        const { submit } = yield* adapterWith(client, { signing: { ...signing, ...b64 === undefined ? {} : { b64 } } })
        yield* Effect.flip(submit(operation, payment))
        const [header, detached, signature] = seen!.jws.split(".")
        assert.strictEqual(detached, "")
        assert.deepStrictEqual(JSON.parse(Buffer.from(header!, "base64url").toString()), {
          ...openBankingClaims(0),
          kid: "key-1",
          "http://openbanking.org.uk/iss": "org-1/software-1",
          ...b64 === false ? { b64, crit: ["b64", ...openBankingClaims(0).crit] } : {}
        })
        const signedText = `${header}.${b64 === false ? seen!.body : Buffer.from(seen!.body).toString("base64url")}`
        const padding = { padding: crypto.constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }
        assert.isTrue(
          crypto.verify(
            "sha256",
            Buffer.from(signedText),
            { key: gatewayKeys.publicKey, ...padding },
            Buffer.from(signature!, "base64url")
          )
        )
      })
  )
})

it.effect("A payment is not sent while the keys of the bank cannot be read: no answer to it could prove anything", () =>
  Effect.gen(function*() {
    const paths: Array<string> = []
    const client = HttpClient.make((request) =>
      Effect.sync(() => {
        paths.push(new URL(request.url).pathname)
        return HttpClientResponse.fromWeb(request, new Response("", { status: 503 }))
      })
    )
    const failure = yield* Effect.flip((yield* adapterWith(client)).submit(operation, payment))
    assert.deepInclude(failure, { _tag: "NotSent", isLocal: true })
    assert.deepStrictEqual(paths, ["/keys"])
  }))

it.effect("A payer without a token delays this operation alone", () =>
  Effect.gen(function*() {
    const payerToken = () => Effect.fail(new Error("expired"))
    const { submit } = yield* adapterWith(answering({ status: 500 }), { payerToken })
    assert.deepInclude(yield* Effect.flip(submit(operation, payment)), {
      _tag: "NotSent",
      reason: "no credentials: Error",
      isLocal: true,
      isOfOperation: true
    })
  }))

it.effect("A wrong path or signature is no failure of one operation", () =>
  Effect.gen(function*() {
    const answers: ReadonlyArray<Answered> = [
      { status: 405, headers: { "content-length": "0" } },
      signed(400, errorBody("U015"))
    ]
    for (const answer of answers) assert.notProperty(yield* submitted(answer), "isOfOperation")
  }))

it.effect("Nothing is sent under the consent of another owner, which an agent names", () =>
  Effect.gen(function*() {
    const paths: Array<string> = []
    const client = HttpClient.make((request) => {
      const path = new URL(request.url).pathname
      paths.push(path)
      const { body, status } = otherRequests({ path }) ?? signed(201, paymentBody("RCVD"))
      return Effect.succeed(HttpClientResponse.fromWeb(request, Response.json(body, { status })))
    })
    const { submit } = yield* adapterWith(client)
    const foreign = { ...payment, Data: { ...payment.Data, ConsentId: foreignConsent } }
    assert.deepInclude(yield* Effect.flip(submit(operation, foreign)), {
      _tag: "NotSent",
      isLocal: true,
      isOfOperation: true
    })
    assert.deepStrictEqual(paths, ["/keys"])
    // Its owner may.
    yield* Effect.exit(submit(operationOf({ ...operation, resource_owner: ResourceOwner.make("owner-2") }), foreign))
    assert.strictEqual(paths.at(-1), "/open-banking/v4.0/pisp/domestic-payments")
  }))

describe("After a lost answer, the consent", () => {
  it.effect("COND says that something was ordered, and a person gets the exact question", () =>
    Effect.gen(function*() {
      const said = yield* read(signed(200, consentBody("COND")), null)
      assert.deepInclude(said, {
        _tag: "NotProven",
        reason: "ordered",
        question:
          `Which DomesticPaymentId did you create under the consent consent-1, for the x-idempotency-key ${operation.id}, and `
          + "what is its Status?"
      })
    }))

  it.effect.each<[status: string, more: Schema.JsonObject, from: string | null]>([
    ["AUTH", {}, null],
    ["AUTH", { CutOffDateTime: "2026-11-26T16:00:00Z" }, "2026-11-26T16:00:00.000Z"],
    ["AWAU", {}, null],
    ["RJCT", { StatusUpdateDateTime: "2026-11-26T11:00:00Z" }, "2026-11-26T11:00:00.000Z"],
    // A payer may reinstate these.
    ["CANC", { StatusUpdateDateTime: "2026-11-26T12:00:00Z" }, null],
    ["EXPD", { StatusUpdateDateTime: "2026-11-26T12:00:00Z" }, null]
  ])(
    "%s with %o says that none was ordered so far, and from when on none can be",
    ([status, more, from]) =>
      Effect.gen(function*() {
        const said = yield* read(signed(200, consentBody(status, more)), null)
        assert.deepInclude(said, { _tag: "NotFound", names: { reference: null, operation_id: operation.id } })
        const refusedFrom = said._tag === "NotFound" ? said.refusedFrom : undefined
        assert.strictEqual(
          refusedFrom === undefined ? null : new Date(refusedFrom.epochMilliseconds).toISOString(),
          from
        )
      })
  )

  const cutOff = { CreationDateTime: "2026-11-26T10:00:00Z", CutOffDateTime: "2026-11-26T16:00:00Z" }
  it.effect.each<[ends: object, from: string | undefined]>([
    [{ refusesAfterCutOff: true, lifetime: "1 hour" }, "2026-11-26T11:00:00.000Z"],
    [{ refusesAfterCutOff: true, lifetime: "1 day" }, "2026-11-26T16:00:00.000Z"],
    [{ lifetime: "1 day" }, "2026-11-27T10:00:00.000Z"],
    [{}, undefined]
  ])(
    "of a bank with %o is refused from the first end on that the bank documents",
    ([ends, from]) =>
      Effect.gen(function*() {
        const { readStatus } = yield* adapterWith(answering(signed(200, consentBody("AUTH", cutOff))), {
          consentEnds: { ...ends, visibleAfter: "10 minutes" }
        })
        const said = yield* readStatus(operation, null, payment)
        const refusedFrom = said._tag === "NotFound" ? said.refusedFrom : undefined
        assert.strictEqual(refusedFrom && DateTime.formatIso(refusedFrom), from)
      })
  )
})

describe("A signed answer about another consent", () => {
  const other = { ConsentId: "consent-2" }
  const about = (body: { readonly Data: Schema.JsonObject }) => ({ ...body, Data: { ...body.Data, ...other } })
  it.effect.each(["RCVD", "ACSC", "RJCT"])(
    "proves nothing, with the status %s of a payment",
    (status) =>
      Effect.gen(function*() {
        const body = about(paymentBody(status))
        assert.deepInclude(yield* submitted(signed(201, body)), { _tag: "Uncertain", isUndeclared: true })
        for (const by of [null, reference]) {
          assert.deepInclude(yield* read(signed(200, body), by), { _tag: "NotProven", reason: "unclear" })
        }
      })
  )

  it.effect.each(["AUTH", "COND", "EXPD"])(
    "proves nothing, with the status %s of a consent",
    (status) =>
      Effect.gen(function*() {
        const said = yield* read(signed(200, about(consentBody(status))), null)
        assert.deepInclude(said, { _tag: "NotProven", reason: "unclear" })
      })
  )
})

describe("At the start, the adapter refuses", () => {
  const options = optionsAt("https://bank.example")
  const elliptic = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({
    type: "pkcs8",
    format: "pem"
  })
  const shortKey = crypto.generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey.export({
    type: "pkcs8",
    format: "pem"
  }) as string
  const publicPem = gatewayKeys.publicKey.export({ type: "spki", format: "pem" }) as string
  const signing = (more: object) => ({ ...options, signing: { ...options.signing, ...more } })
  const tls = { cert, key: Redacted.make(key) }

  type Refused = [what: string, given: OpenBankingUk.OpenBankingUkOptions, why: RegExp, tls?: object, year?: number]
  const outdated = /^tls\.cert has expired, or is not valid yet: renew it/
  it.effect.each<Refused>([
    ...["0 seconds", "-1 hour", "Infinity", "soon"].map((lifetime): Refused => [
      `a consent that lives ${lifetime}`,
      { ...options, consentEnds: { lifetime: lifetime as never, visibleAfter: "1 minute" } },
      /^consentEnds\.lifetime must be a finite duration/
    ]),
    ["an expired certificate", options, outdated, {}, 2121],
    ["a certificate that is not valid yet", options, outdated, {}, 2019],
    ["a missing certificate", options, /^tls\.cert must be a certificate in PEM$/, { cert: "" }],
    ["the key of another certificate", options, /^tls\.key is not the key of the certificate/, { key: signingKey }],
    ["another algorithm", signing({ key: Redacted.make(elliptic) }), /^signing\.key must be an RSA key of 2048 bits/],
    ["a short key", signing({ key: Redacted.make(shortKey) }), /^signing\.key must be an RSA key of 2048 bits/],
    ["a missing key id", signing({ keyId: "" }), /^signing\.keyId must be set/],
    ["a public key", signing({ key: Redacted.make(publicPem) }), /^signing\.key must be a private key in PEM/],
    ["an address without TLS", { ...options, baseUrl: "http://bank.example" }, /^baseUrl must begin with https/],
    ...["", "client-1\n", "client 1"].map((clientId): Refused => [
      `the client id ${JSON.stringify(clientId)}`,
      { ...options, client: { ...options.client, clientId } },
      /^client\.clientId must be set, and have visible ASCII characters alone/
    ]),
    ["a bank without an issuer", { ...options, bank: { ...options.bank, issuer: "" } }, /^bank\.issuer must be set/]
  ])("%s", ([, given, why, changed, year = 2026]) =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.UTC(year))
      const exit = yield* Effect.exit(Layer.build(OpenBankingUk.layer({ ...given, tls: { ...tls, ...changed } })))
      assert.isTrue(Exit.isFailure(exit))
      const defect = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
      assert.instanceOf(defect, TypeError)
      assert.match((defect as TypeError).message, why)
    }))

  it.effect("nothing that is right", () =>
    Effect.andThen(TestClock.setTime(Date.UTC(2026)), Layer.build(OpenBankingUk.layer({ ...options, tls }))))
})
