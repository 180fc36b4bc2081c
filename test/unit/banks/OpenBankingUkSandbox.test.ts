/**
 * The simulator of an Open Banking bank keeps the rules of the standard: a consent pays at most once, a key is known for 24 hours, and
 * each body is signed. What adapter and simulator exchange is what the standard's document declares.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { TestClock } from "effect/testing"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { makeOpenBankingUkDialect, type OpenBankingUkBank } from "../../../src/sandbox/banks/OpenBankingUkDialect.ts"
import type { FaultSettings } from "../../../src/sandbox/Faults.ts"
import type { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { ProviderReference, type StatusAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import { startAdapter } from "../../fixtures/banks/BankClient.ts"
import { bankKeys, gatewayKeys, optionsAt, payment, signatureOf } from "../../fixtures/banks/openBankingUk.ts"
import { assertDocumented, watch, withDocument } from "../../fixtures/banks/PublishedDocument.ts"
import { start } from "../../fixtures/sandbox/SandboxHarness.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

const operation = () => operationOf({ type: OperationType.make("domestic_payment") })

const startBank = (faults: FaultSettings = {}, bank: OpenBankingUkBank = {}) =>
  start({ seed: "open banking", faults }, makeOpenBankingUkDialect({ clientKey: gatewayKeys.publicKey, ...bank }))

const adapterAt = (url: string, client = ProviderHttpClient.layer(), succeedsAt?: "ACCC") =>
  startAdapter(OpenBankingUk.at({ ...optionsAt(url), ...succeedsAt && { succeedsAt } }), client)

/** A payment under a consent, with an instruction to the sandbox. */
const under = (ConsentId: string, instruction: object = { outcome: "succeeded" }) => ({
  ...payment,
  Data: {
    ConsentId,
    Initiation: {
      ...payment.Data.Initiation,
      RemittanceInformation: { Unstructured: [`sandbox ${JSON.stringify(instruction)}`] }
    }
  }
})

const root = "/open-banking/v4.0/pisp"
const signed = (body: string, more: object = {}) => signatureOf(body, { kid: "key-1", ...more }, gatewayKeys.privateKey)

/** A request of the gateway to the bank, by hand. */
const post = (url: string, collection: string, payload: object, headers: Readonly<Record<string, string>>) => {
  const body = JSON.stringify(payload)
  return HttpClientRequest.post(`${url}${root}/${collection}`).pipe(
    HttpClientRequest.bodyText(body, "application/json"),
    HttpClientRequest.setHeaders({
      authorization: `Bearer token-of-the-${collection === "domestic-payments" ? "payer" : "client"}`,
      "x-fapi-interaction-id": "93bac548-d2de-4546-b106-880a5018460d",
      "x-jws-signature": signed(body),
      ...headers
    }),
    HttpClient.execute,
    Effect.flatMap((response) => Effect.map(response.text, (text) => ({ status: response.status, text })))
  )
}
const pay = (url: string, key: string, payload: object, headers: Readonly<Record<string, string>> = {}) =>
  post(url, "domestic-payments", payload, { "x-idempotency-key": key, ...headers })

/** Asks for a consent, and yields its id. */
const consentAt = (url: string, key = "key-0") => {
  const { Data: { Initiation }, Risk } = payment
  const created = post(url, "domestic-payment-consents", { Data: { Initiation }, Risk }, { "x-idempotency-key": key })
  return Effect.map(created, ({ text }) => (JSON.parse(text) as { Data: { ConsentId: string } }).Data.ConsentId)
}

const idIn = (text: string) => (JSON.parse(text) as { Data: { DomesticPaymentId: string } }).Data.DomesticPaymentId

/** The error code with which the bank refuses a payment. */
const codeOf = (...asked: Parameters<typeof pay>) =>
  Effect.map(
    pay(...asked),
    ({ text }) => (JSON.parse(text) as { Errors: [{ ErrorCode: string }] }).Errors[0].ErrorCode
  )

/** The instant from which on the bank refuses the payment, in milliseconds. */
const refusedFromIn = (read: StatusAnswer) => read._tag === "NotFound" ? read.refusedFrom!.epochMilliseconds : null

const bookings = ({ record }: Sandbox["Service"]) =>
  Effect.map(record, (receipts) => receipts.filter(({ outcome }) => outcome === "accepted").length)

describe("A bank of the Open Banking standard", () => {
  withDocument(
    { file: "open-banking-uk-4.0.openapi.json" },
    "exchanges with the adapter only what the standard's document declares",
    (document) =>
      Effect.gen(function*() {
        const bank = yield* startBank()
        const watched = watch(ProviderHttpClient.layer(), () => `${bank.url}${root}`)
        const { readStatus, submit } = yield* adapterAt(bank.url, watched.client)
        const unused = under("consent-unused")
        const submitted = (payload: typeof payment) => Effect.exit(submit(operation(), payload))
        yield* submitted(under("consent-1"))
        yield* submitted(under("consent-2", { outcome: "pending" }))
        yield* submitted(under("consent-3", { outcome: "failed", code: "insufficient_funds" }))
        yield* submitted(under("consent-4", { outcome: "rejected", code: "limit_exceeded" }))
        yield* submitted(under("consent-1", { outcome: "succeeded" }))
        yield* readStatus(operation(), null, under("consent-1", { outcome: "succeeded" }))
        yield* readStatus(operation(), null, under("consent-2", { outcome: "pending" }))
        yield* readStatus(operation(), null, unused)
        for (const reference of ["none", (yield* bank.record)[0]!.settlement!.reference]) {
          yield* readStatus(operation(), ProviderReference.make(reference))
        }
        for (const faults of [{ unauthorized: { rate: 1 } }, { too_many_requests: { rate: 1, requests: 1 } }]) {
          yield* bank.setFaults(faults)
          yield* submitted(under("consent-5"))
          yield* submitted(under("consent-6"))
          yield* readStatus(operation(), null, unused)
        }
        yield* bank.setFaults({ duplicate_key_rejected: { rate: 1 } })
        yield* submitted(under("consent-1"))
        yield* bank.setFaults({})
        yield* consentAt(bank.url, "key-1").pipe(Effect.provide(watched.client))
        assertDocumented(document, watched.exchanges, [
          "GET /domestic-payment-consents/{ConsentId} 200",
          "GET /domestic-payment-consents/{ConsentId} 401",
          "GET /domestic-payment-consents/{ConsentId} 429",
          "GET /domestic-payments/{DomesticPaymentId} 200",
          "GET /domestic-payments/{DomesticPaymentId} 400",
          "POST /domestic-payment-consents 201",
          "POST /domestic-payments 201",
          "POST /domestic-payments 400",
          "POST /domestic-payments 401",
          "POST /domestic-payments 409",
          "POST /domestic-payments 429"
        ])
      })
  )

  it.effect("pays once under a consent, and knows a key for 24 hours", () =>
    Effect.gen(function*() {
      const bank = yield* startBank()
      const first = yield* pay(bank.url, "key-1", under("consent-1"))
      assert.strictEqual(first.status, 201)
      const again = yield* pay(bank.url, "key-1", under("consent-1"))
      assert.deepStrictEqual([again.status, idIn(again.text)], [201, idIn(first.text)])
      // Another key, or another consent under the known key.
      assert.strictEqual(yield* codeOf(bank.url, "key-2", under("consent-1")), "U009")
      assert.strictEqual(yield* codeOf(bank.url, "key-1", under("consent-2")), "U002")
      assert.strictEqual(yield* bookings(bank), 1)
      yield* TestClock.adjust("24 hours")
      assert.strictEqual(yield* codeOf(bank.url, "key-1", under("consent-1")), "U009")
      assert.strictEqual((yield* pay(bank.url, "key-1", under("consent-3"))).status, 201)
      assert.strictEqual(yield* bookings(bank), 2)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.effect("refuses a payment after the cut-off of its consent, and one that differs from it", () =>
    Effect.gen(function*() {
      const bank = yield* startBank()
      const ConsentId = yield* consentAt(bank.url)
      assert.strictEqual(yield* codeOf(bank.url, "key-1", under(ConsentId)), "U008")
      yield* TestClock.adjust("61 minutes")
      // JSON gives the order of members no meaning.
      const Initiation = Object.fromEntries(Object.entries(payment.Data.Initiation).toReversed())
      assert.strictEqual(yield* codeOf(bank.url, "key-1", { Risk: {}, Data: { Initiation, ConsentId } }), "U012")
      assert.strictEqual(yield* bookings(bank), 0)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.effect("refuses a payment after the cut-off of its consent also if it was restarted meanwhile", () =>
    Effect.gen(function*() {
      const ConsentId = yield* consentAt((yield* startBank()).url)
      yield* TestClock.adjust("59 minutes")
      const after = yield* startBank()
      const { readStatus } = yield* adapterAt(after.url)
      const paid = { ...payment, Data: { ...payment.Data, ConsentId } }
      assert.strictEqual(refusedFromIn(yield* readStatus(operation(), null, paid)), 3_600_000)
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual(yield* codeOf(after.url, "key-1", paid), "U012")
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.effect("names its key by the key: another one has another name", () =>
    Effect.gen(function*() {
      const namesOf = (bank: Sandbox["Service"]) =>
        HttpClient.get(`${bank.url}/keys`).pipe(
          Effect.flatMap(({ text }) => text),
          Effect.map((text) => (JSON.parse(text) as { keys: ReadonlyArray<{ kid: string }> }).keys[0]!.kid)
        )
      const [one, other] = [yield* startBank(), yield* startBank()]
      assert.notStrictEqual(yield* namesOf(one), yield* namesOf(other))
      const bankKey = bankKeys.privateKey
      const kept = [yield* startBank({}, { bankKey }), yield* startBank({}, { bankKey })] as const
      assert.strictEqual(yield* namesOf(kept[0]), yield* namesOf(kept[1]))
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.effect.each<[what: string, headers: Readonly<Record<string, string>>, code: string]>([
    ["of another body", { "x-jws-signature": signed("{}") }, "U015"],
    ["with another algorithm", { "x-jws-signature": signed("{}", { alg: "RS256" }) }, "U016"],
    ["with another critical claim", { "x-jws-signature": signed("{}", { crit: ["exp"] }) }, "U016"],
    ["that is none", { "x-jws-signature": "none" }, "U018"],
    ["and a key of 41 characters", { "x-idempotency-key": "k".repeat(41) }, "U006"]
  ])("refuses a request with a signature %s", ([, headers, code]) =>
    Effect.gen(function*() {
      const bank = yield* startBank()
      assert.strictEqual(yield* codeOf(bank.url, "key-1", payment, headers), code)
      assert.strictEqual(yield* bookings(bank), 0)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))
})

describe("Where ACCC alone succeeds", () => {
  it.effect.each<[what: string, instruction: object, state: "succeeded" | "failed"]>([
    ["credited to the payee has succeeded", {}, "succeeded"],
    ["debited, and then returned, has failed", { return_after_ms: 3000 }, "failed"]
  ])("a payment that is %s", ([, more, state]) =>
    Effect.gen(function*() {
      const bank = yield* startBank()
      const { readStatus, submit } = yield* adapterAt(bank.url, ProviderHttpClient.layer(), "ACCC")
      const [about, payload] = [operation(), under("consent-1", { outcome: "succeeded", ...more })]
      const { _tag, names } = yield* submit(about, payload)
      assert.strictEqual(_tag, "Acknowledged")
      const read = readStatus(about, names.reference, payload)
      assert.deepInclude(yield* read, { _tag: "Proven", state: "submitted" })
      yield* TestClock.adjust("5 seconds")
      assert.deepInclude(yield* read, { _tag: "Proven", state })
    }))
})

describe("After a lost answer", () => {
  const lost = (faults: FaultSettings) =>
    Effect.gen(function*() {
      const bank = yield* startBank(faults)
      const { readStatus, submit } = yield* adapterAt(bank.url)
      const payload = under("consent-1")
      const about = operation()
      const failure = yield* Effect.flip(submit(about, payload))
      assert.strictEqual(failure._tag, "Uncertain")
      yield* bank.setFaults({})
      return { bank, read: yield* readStatus(about, null, payload) }
    })

  it.effect.each<[name: string, faults: FaultSettings]>([
    ["the connection closes", { drop_response: { rate: 1 } }],
    ["the body is cut", { reset_mid_body: { rate: 1 } }],
    ["a proxy answers with a page", { bad_gateway: { rate: 1 } }],
    ["the body is no JSON", { garbage_body: { rate: 1 } }],
    ["the body is called a page", { wrong_content_type: { rate: 1 } }]
  ])(
    "(%s) the consent says that a payment was ordered, which a person settles",
    ([, faults]) =>
      Effect.gen(function*() {
        const { bank, read } = yield* lost(faults)
        assert.deepInclude(read, { _tag: "NotProven", reason: "ordered" })
        assert.strictEqual(yield* bookings(bank), 1)
      })
  )

  it.effect("of a request that never arrived, the consent is unused, and states its cut-off time", () =>
    Effect.gen(function*() {
      const { bank, read } = yield* lost({ lose: { rate: 1 } })
      assert.strictEqual(refusedFromIn(read), 3_600_000)
      assert.strictEqual(yield* bookings(bank), 0)
    }))

  it.effect("an answer about another payment proves nothing", () =>
    Effect.gen(function*() {
      const bank = yield* startBank({ foreign_answer: { rate: 1 } })
      const { submit } = yield* adapterAt(bank.url)
      const failure = yield* Effect.flip(submit(operation(), under("consent-1")))
      assert.deepInclude(failure, { _tag: "Uncertain", reason: "status 201, about another consent" })
    }))
})
