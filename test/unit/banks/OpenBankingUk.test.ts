/**
 * The adapter for banks of the Open Banking standard gives each documented answer its meaning, and refuses settings that cannot be right.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Redacted, type Schema } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { ResourceOwner } from "../../../src/domain/Grant.ts"
import type { StatusAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { answering, nowhere, refusalOf, startAdapter } from "../../fixtures/banks/BankClient.ts"
import {
  type Answered,
  consentBody,
  errorBody,
  foreignConsent,
  gatewayKeys,
  operation,
  optionsAt,
  otherRequests,
  payment,
  paymentBody,
  read,
  reference,
  signed,
  signedAnswer,
  signingKey,
  startWith,
  submitted
} from "../../fixtures/banks/openBankingUk.ts"
import { cert, key } from "../../fixtures/http/TlsServer.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

const creditor = payment.Data.Initiation.CreditorAccount
const withInitiation = (more: object) => ({
  ...payment,
  Data: { ...payment.Data, Initiation: { ...payment.Data.Initiation, ...more } }
})
const withAmount = (Amount: string, Currency: string) => withInitiation({ InstructedAmount: { Amount, Currency } })

const sent = (payload: Schema.JsonObject) => ({
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
  signedAnswer(subject.id, status, body(subject.reference), Date.now())

describe.concurrent("The adapter for Open Banking UK follows the contract:", () => {
  const cases = ProviderContract.cases({
    adapter: (baseUrl) => OpenBankingUk.at(optionsAt(baseUrl)),
    operation: { type: "domestic_payment", resource_owner: "owner-1" },
    terms: OpenBankingUk.domesticPaymentTerms,
    expects: [
      sent(payment),
      sent(withAmount("1.15", "GBP")),
      sent(withAmount("165.88", "EUR")),
      sent(withAmount("750", "JPY")),
      sent(withInitiation({ CreditorAccount: { ...creditor, Identification: "08080099999999" } }))
    ],
    invalidPayloads: [withAmount("0.00", "GBP"), { ...payment, Data: { ...payment.Data, ConsentId: "" } }],
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

  it.effect.each<[status: string, answer: string, state: "submitted" | "succeeded" | "failed"]>([
    ["ACSC", "Acknowledged", "submitted"],
    ["ACCC", "Succeeded", "succeeded"],
    ["RJCT", "Rejected", "failed"]
  ])(
    "%s, where ACCC alone succeeds: the answer is %s, and a read proves %s",
    ([status, answer, state]) =>
      Effect.gen(function*() {
        const started = yield* startWith(signed(201, paymentBody(status)), { succeedsAt: "ACCC" })
        assert.strictEqual((yield* started.submit(operation, payment))._tag, answer)
        const { readStatus } = yield* startWith(signed(200, paymentBody(status)), { succeedsAt: "ACCC" })
        assert.deepInclude(yield* readStatus(operation, reference, payment), { _tag: "Proven", state })
      })
  )

  it.effect.each<["ACSC" | "ACCC"]>([["ACSC"], ["ACCC"]])(
    "BLCK waits for a person, who gets the question, where %s succeeds",
    ([succeedsAt]) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* submitted(signed(201, paymentBody("BLCK"))))._tag, "Acknowledged")
        const { readStatus } = yield* startWith(signed(200, paymentBody("BLCK")), { succeedsAt })
        const said = yield* readStatus(operation, reference, payment)
        assert.deepInclude(said, { _tag: "NotProven", reason: "unclear" })
        assert.match(said._tag === "NotProven" ? said.question! : "", /^Payment payment-1 is blocked/)
      })
  )

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
    ["401 of the payer's token", { status: 401 }, { ...ownFault, isOfOperation: true }],
    ["403", signed(403, errorBody("AG01")), { _tag: "Rejected", code: "not_permitted" }],
    ["404", signed(404, errorBody("U011")), { _tag: "Uncertain", isUndeclared: true }],
    ["405", { status: 405 }, ownFault],
    // A framework gives it after it carried out a request.
    ["406", { status: 406 }, { _tag: "Uncertain", reason: "the provider answered 406" }],
    ["409", signed(409, errorBody("U029")), { _tag: "Uncertain", reason: "the provider answered 409" }],
    ["415", { status: 415 }, ownFault],
    ["429", { status: 429 }, { _tag: "NotSent", isRefused: true }],
    ["500", signed(500, errorBody("U000")), { _tag: "Uncertain", reason: "the provider answered 500" }],
    ["503", { status: 503 }, { _tag: "Uncertain" }]
  ])("%s", ([, answer, said]) =>
    Effect.gen(function*() {
      assert.deepInclude({ ...(yield* submitted(answer)) }, said)
    }))
})

it.effect("A payment is not sent while the keys of the bank cannot be read: no answer to it could prove anything", () =>
  Effect.gen(function*() {
    const paths: Array<string> = []
    const client = answering(({ pathname }) => {
      paths.push(pathname)
      return new Response("", { status: 503 })
    })
    const { submit } = yield* startAdapter(OpenBankingUk.at(optionsAt(nowhere)), client)
    assert.deepInclude(yield* Effect.flip(submit(operation, payment)), { _tag: "NotSent", isLocal: true })
    assert.deepStrictEqual(paths, ["/keys"])
  }))

it.effect("A payer without a token delays this operation alone", () =>
  Effect.gen(function*() {
    const payerToken = () => Effect.fail(new Error("expired"))
    const { submit } = yield* startWith({ status: 500 }, { payerToken })
    assert.deepInclude(yield* Effect.flip(submit(operation, payment)), {
      _tag: "NotSent",
      reason: "no credentials: Error",
      isLocal: true,
      isOfOperation: true
    })
  }))

it.effect("A wrong path or signature is no failure of one operation", () =>
  Effect.gen(function*() {
    for (const answer of [{ status: 405 }, signed(400, errorBody("U015"))]) {
      assert.notProperty(yield* submitted(answer), "isOfOperation")
    }
  }))

it.effect("Nothing is sent under the consent of another owner, which an agent names", () =>
  Effect.gen(function*() {
    const { paths, submit } = yield* startWith(signed(201, paymentBody("RCVD")))
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
  const refusedFromIn = (said: StatusAnswer) =>
    said._tag === "NotFound" && said.refusedFrom !== undefined ? DateTime.formatIso(said.refusedFrom) : null

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
        assert.strictEqual(refusedFromIn(said), from)
      })
  )

  const cutOff = { CreationDateTime: "2026-11-26T10:00:00Z", CutOffDateTime: "2026-11-26T16:00:00Z" }
  it.effect.each<[ends: object, from: string | null]>([
    [{ refusesAfterCutOff: true, lifetime: "1 hour" }, "2026-11-26T11:00:00.000Z"],
    [{ refusesAfterCutOff: true, lifetime: "1 day" }, "2026-11-26T16:00:00.000Z"],
    [{ lifetime: "1 day" }, "2026-11-27T10:00:00.000Z"],
    [{}, null]
  ])(
    "of a bank with %o is refused from the first end on that the bank documents",
    ([ends, from]) =>
      Effect.gen(function*() {
        const { readStatus } = yield* startWith(signed(200, consentBody("AUTH", cutOff)), {
          consentEnds: { ...ends, visibleAfter: "10 minutes" }
        })
        assert.strictEqual(refusedFromIn(yield* readStatus(operation, null, payment)), from)
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
  const pem = (key: crypto.KeyObject) => Redacted.make(key.export({ type: "pkcs8", format: "pem" }) as string)
  const elliptic = pem(crypto.generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey)
  const shortKey = pem(crypto.generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey)
  const publicKey = Redacted.make(gatewayKeys.publicKey.export({ type: "spki", format: "pem" }) as string)
  const signing = (more: object) => ({ ...options, signing: { ...options.signing, ...more } })
  const tls = { cert, key: Redacted.make(key) }

  type Refused = [what: string, given: OpenBankingUk.OpenBankingUkOptions, why: string, tls?: object, year?: number]
  const outdated = "tls.cert has expired, or is not valid yet: renew it"
  const notRsa = "signing.key must be an RSA key of 2048 bits"
  it.effect.each<Refused>([
    ...["0 seconds", "-1 hour", "Infinity", "soon"].map((lifetime): Refused => [
      `a consent that lives ${lifetime}`,
      { ...options, consentEnds: { lifetime: lifetime as never, visibleAfter: "1 minute" } },
      "consentEnds.lifetime must be a finite duration"
    ]),
    [
      "a payment that is visible at once",
      { ...options, consentEnds: { visibleAfter: 0 } },
      "consentEnds.visibleAfter must be a finite duration"
    ],
    ["an expired certificate", options, outdated, {}, 2121],
    ["a certificate that is not valid yet", options, outdated, {}, 2019],
    ["a missing certificate", options, "tls.cert must be a certificate in PEM", { cert: "" }],
    ["the key of another certificate", options, "tls.key is not the key of the certificate", { key: signingKey }],
    ["another algorithm", signing({ key: elliptic }), notRsa],
    ["a short key", signing({ key: shortKey }), notRsa],
    ["a missing key id", signing({ keyId: "" }), "signing.keyId must be set"],
    ["a public key", signing({ key: publicKey }), "signing.key must be a private key in PEM"],
    ["an address without TLS", { ...options, baseUrl: "http://bank.example" }, "baseUrl must begin with https"],
    ...["", "client-1\n", "client 1"].map((clientId): Refused => [
      `the client id ${JSON.stringify(clientId)}`,
      { ...options, client: { ...options.client, clientId } },
      "client.clientId must be set, and have visible ASCII characters alone"
    ]),
    ["another status of success", { ...options, succeedsAt: "ACSP" as never }, "succeedsAt must be ACSC or ACCC"],
    ["a bank without an issuer", { ...options, bank: { ...options.bank, issuer: "" } }, "bank.issuer must be set"]
  ])("%s", ([, given, why, changed, year = 2026]) =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.UTC(year))
      const refusal = yield* refusalOf(Layer.build(OpenBankingUk.layer({ ...given, tls: { ...tls, ...changed } })))
      assert.isTrue(refusal.startsWith(`TypeError: ${why}`), refusal)
    }))

  it.effect("nothing that is right", () =>
    Effect.andThen(TestClock.setTime(Date.UTC(2026)), Layer.build(OpenBankingUk.layer({ ...options, tls }))))
})
