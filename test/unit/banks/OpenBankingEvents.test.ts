/** An event of a bank of the Open Banking standard is a hint once, and only if the bank signed it for this receiver a short time ago. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Logger, References } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { answering, nowhere, refusalOf } from "../../fixtures/banks/BankClient.ts"
import { openBankingClaims, optionsAt, otherRequests, signatureOf } from "../../fixtures/banks/openBankingUk.ts"

const { bank } = optionsAt(nowhere)
const options: OpenBankingUk.EventOptions = { bank, issuer: "https://bank.example/", audience: "client-1" }

/** Seconds. */
const now = 1_780_000_000

const resourceUpdate = (id: string) => ({
  "urn:uk:org:openbanking:events:resource-update": {
    subject: {
      subject_type: "http://openbanking.org.uk/rid_http://openbanking.org.uk/rty",
      "http://openbanking.org.uk/rid": id,
      "http://openbanking.org.uk/rty": "domestic-payments",
      "http://openbanking.org.uk/rlk": [{ version: "v4.0", link: `https://bank.example/domestic-payments/${id}` }]
    }
  }
})

/** As the standard's example has it. */
const claims = {
  iss: "https://bank.example/",
  iat: now,
  jti: "b460a07c-4962-43d1-85ee-9dc10fbb8f6c",
  sub: "https://bank.example/open-banking/v4.0/pisp/domestic-payments/payment-1",
  aud: "client-1",
  txn: "dfc51628-3479-4b81-ad60-210b43d02306",
  toe: now,
  events: resourceUpdate("payment-1")
}

/** A signed event. `more` replaces its claims, and `header` those of its header. */
const eventOf = (more: object = {}, header: object = {}, key?: crypto.KeyObject): string => {
  const text = JSON.stringify({ ...claims, ...more })
  const [encoded, , signature] = signatureOf(text, { "http://openbanking.org.uk/iat": now, ...header }, key).split(".")
  return `${encoded}.${Buffer.from(text).toString("base64url")}.${signature}`
}

type Bank = ReturnType<typeof answering>

const published: Bank = answering(({ pathname }) => {
  const { body, status } = otherRequests({ path: pathname })!
  return Response.json(body, { status })
})

/** A receiver at the time of the event, and the hints that it gave. */
const start = Effect.fnUntraced(function*(more: Partial<OpenBankingUk.EventOptions> = {}, client: Bank = published) {
  yield* TestClock.setTime(now * 1000)
  const receive = yield* Effect.provide(OpenBankingUk.makeEventReceiver({ ...options, ...more }), client)
  const hints: Array<string> = []
  return {
    hints,
    receive: (body: string) => receive(body, ({ reference }) => Effect.sync(() => hints.push(reference))),
    fail: (body: string) => receive(body, () => Effect.fail("unavailable" as const))
  }
})

describe("An event of the bank", () => {
  it.effect.each<[name: string, header: object, more: object]>([
    ["as the standard describes it", {}, {}],
    ["with the type of a JWT", { typ: "JWT" }, {}],
    ["with the type of a security event token", { typ: "secevent+jwt" }, {}],
    ["for several receivers", {}, { aud: ["another", "client-1"] }],
    ["of a day ago", {}, { iat: now - 86_400 }],
    ["repeated with its first signature", { "http://openbanking.org.uk/iat": now - 86_400 }, { iat: now - 86_400 }],
    ["by a clock that is a minute ahead", {}, { iat: now + 60 }],
    ["of two types", {}, {
      events: { ...claims.events, "urn:uk:org:openbanking:events:consent-authorization-revoked": {} }
    }]
  ])("%s is a hint about its payment", ([, header, more]) =>
    Effect.gen(function*() {
      const { hints, receive } = yield* start()
      yield* receive(eventOf(more, header))
      assert.deepStrictEqual(hints, ["payment-1"])
    }))

  it.effect("of another type alone is taken without a hint", () =>
    Effect.gen(function*() {
      const { hints, receive } = yield* start()
      yield* receive(eventOf({ events: { "urn:uk:org:openbanking:events:consent-authorization-revoked": {} } }))
      assert.isEmpty(hints)
    }))

  it.effect("that is repeated is taken, and is no second hint", () =>
    Effect.gen(function*() {
      const { hints, receive } = yield* start()
      for (const body of [eventOf(), eventOf(), eventOf({}, { typ: "JWT" })]) yield* receive(body)
      assert.deepStrictEqual(hints, ["payment-1"])
      yield* receive(eventOf({ jti: "another", events: resourceUpdate("payment-2") }))
      assert.deepStrictEqual(hints, ["payment-1", "payment-2"])
    }))

  it.effect("is a hint once the bank repeats it, if the first hint failed", () =>
    Effect.gen(function*() {
      const { fail, hints, receive } = yield* start()
      assert.strictEqual(yield* Effect.flip(fail(eventOf())), "unavailable")
      yield* receive(eventOf())
      assert.deepStrictEqual(hints, ["payment-1"])
    }))

  it.effect("is remembered for as long as it counts, also if the bank's clock is ahead", () =>
    Effect.gen(function*() {
      const { hints, receive } = yield* start({ maxAge: "1 hour" })
      const event = eventOf({ iat: now + 60 })
      yield* receive(event)
      yield* TestClock.adjust(Duration.sum(Duration.hours(1), Duration.minutes(1)))
      yield* receive(eventOf({ jti: "another", iat: now + 3600 }))
      yield* receive(event)
      assert.lengthOf(hints, 2)
      yield* TestClock.adjust(1000)
      assert.include((yield* Effect.flip(receive(event)))._tag, "InvalidEvent")
    }))

  const other = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
  const [header, payload, signature] = eventOf().split(".") as [string, string, string]
  const altered = Buffer.from(JSON.stringify({ ...claims, jti: "altered" })).toString("base64url")
  const unsigned = Buffer.from(JSON.stringify({ ...openBankingClaims(now * 1000), alg: "none" })).toString("base64url")

  it.effect.each<[name: string, body: string, reason: string]>([
    ["that is none", "", "no signed event"],
    ["that is JSON", JSON.stringify(claims), "no signed event"],
    ["that is detached", `${header}..${signature}`, "no signed event"],
    ["of 9 KB", eventOf({ more: "x".repeat(9000) }), "no signed event"],
    ["without a signature", `${unsigned}.${payload}.AA`, "an event with a signature of another form"],
    ["by a shared secret", eventOf({}, { alg: "HS256" }), "an event with a signature of another form"],
    ["by a key without a name", eventOf({}, { kid: undefined }), "an event with a signature of another form"],
    ["by another key", eventOf({}, {}, other), "an event with a wrong signature"],
    ["that is altered", `${header}.${altered}.${signature}`, "an event with a wrong signature"],
    ["by an unknown key", eventOf({}, { kid: "key-9" }), "an event with a signature by an unknown key"],
    ...[
      { "http://openbanking.org.uk/iss": "another-bank" },
      { "http://openbanking.org.uk/tan": "example.com" },
      { "http://openbanking.org.uk/iat": now + 3600 },
      { typ: "at+jwt" }
    ].map((header): [string, string, string] => [
      `with ${JSON.stringify(header)}`,
      eventOf({}, header),
      "an event with a signature of another party"
    ]),
    [
      "with an unknown critical claim",
      eventOf({}, { crit: [...openBankingClaims(0).crit, "exp"], exp: 1 }),
      "an event with a wrong signature"
    ],
    ["of another issuer", eventOf({ iss: "https://other.example/" }), "an event of another issuer"],
    ["for another receiver", eventOf({ aud: "client-2" }), "an event for another audience"],
    ["for no receiver", eventOf({ aud: [] }), "an event for another audience"],
    ["that is too old", eventOf({ iat: now - 86_401 }), "an event of another time: check the clock"],
    ["from the future", eventOf({ iat: now + 61 }), "an event of another time: check the clock"],
    ...[{ iat: undefined }, { iat: String(now) }, { jti: undefined }, { jti: "" }, { iss: undefined }, { events: null }]
      .map((more): [string, string, string] => [
        `with ${Object.keys(more)[0]} ${JSON.stringify(Object.values(more)[0])}`,
        eventOf(more),
        "an event of another form"
      ]),
    [
      "without a resource",
      eventOf({ events: { "urn:uk:org:openbanking:events:resource-update": {} } }),
      "an event of another form"
    ]
  ])("%s is refused, and the reason repeats nothing of it", ([, body, reason]) =>
    Effect.gen(function*() {
      const { hints, receive } = yield* start()
      assert.deepInclude(yield* Effect.flip(receive(body)), { _tag: "InvalidEvent", reason })
      assert.isEmpty(hints)
    }))

  it.effect("fails while the keys of the bank cannot be read, and is a hint once they can", () =>
    Effect.gen(function*() {
      let isUp = false
      const client = answering(({ pathname }) =>
        isUp ? Response.json(otherRequests({ path: pathname })!.body) : new Response("", { status: 503 })
      )
      const { hints, receive } = yield* start({}, client)
      assert.strictEqual((yield* Effect.flip(receive(eventOf())))._tag, "AuthorizationUnavailable")
      isUp = true
      yield* TestClock.adjust("31 seconds")
      yield* receive(eventOf())
      assert.deepStrictEqual(hints, ["payment-1"])
    }).pipe(Effect.provide(Logger.layer([])), Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect.each<Partial<OpenBankingUk.EventOptions>>([
    { issuer: "" },
    { audience: "client\n" },
    { bank: { ...bank, keysUrl: "http://bank.example/keys" } }
  ])("has no receiver with %j", (more) =>
    Effect.gen(function*() {
      assert.notStrictEqual(yield* refusalOf(start(more)), "")
    }))
})
