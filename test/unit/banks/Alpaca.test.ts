/** The adapter for Alpaca: the contract of adapters, every documented answer, and the simulator from an order to its end. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as Alpaca from "../../../src/banks/Alpaca.ts"
import { payloadDecoders } from "../../../src/domain/PayloadSchemas.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { alpacaDialect } from "../../../src/sandbox/banks/AlpacaDialect.ts"
import type { SandboxOptions } from "../../../src/sandbox/Sandbox.ts"
import type {
  ProviderOperation,
  StatusAnswer,
  SubmissionAnswer
} from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { answering, nowhere, refusalOf, startAdapter } from "../../fixtures/banks/BankClient.ts"
import { start } from "../../fixtures/sandbox/SandboxHarness.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const keys = { keyId: Redacted.make("PKTESTKEYID"), secretKey: Redacted.make("secret-of-the-paper-account") }
const order = { symbol: "AAPL", qty: "2", side: "buy", type: "limit", time_in_force: "day", limit_price: "150.25" }
const id = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"
const reference = "61e69015-8549-4bfd-b9c3-01e75843f47d"
const replacement = "7a3b9015-8549-4bfd-b9c3-01e75843f47d"
const operation = { id, type: "order", send_before: null } as unknown as ProviderOperation

/** The members of an order that the adapter reads, and some others. */
const answered = (status: string, filled_qty = "0", more: Schema.JsonObject = {}) => ({
  id: reference,
  client_order_id: id,
  status,
  filled_qty,
  qty: "2",
  replaced_by: null,
  ...more
})

const about = (status: string, filled_qty?: string) => (subject: ProviderContract.AnswerSubject) => ({
  status: 200,
  body: answered(status, filled_qty, { id: subject.reference, client_order_id: subject.id })
})

const refusal = (status: number, code: number) => () => ({ status, body: { code, message: "Why." } })

const expected = (payload: Schema.JsonObject) => ({
  payload,
  request: ({ id }: ProviderContract.Submitted) => ({
    path: "/v2/orders",
    headers: { "apca-api-key-id": "PKTESTKEYID", "apca-api-secret-key": "secret-of-the-paper-account" },
    body: `${JSON.stringify(payload).slice(0, -1)},"client_order_id":"${id}"}`
  })
})

const coins = { symbol: "ETH/USD", qty: "2", side: "buy", type: "limit", time_in_force: "gtc", limit_price: "150.25" }

/** Cases that the adapter cannot meet. */
const unmet = new Set([
  // The kit's name has the scheme http, which the adapter refuses at the start, except for this machine.
  "submit: nothing was sent if the name of the bank does not resolve"
])

const types = ["order", "bounded_order"]

describe.concurrent.each(types)("The adapter for Alpaca follows the contract, for the type %s:", (type) => {
  const cases = ProviderContract.cases({
    adapter: (baseUrl) => Alpaca.at({ baseUrl, keys }),
    operation: { type },
    otherTypes: types,
    terms: Alpaca.orderTerms,
    expects: [
      order,
      { ...order, symbol: "MSFT" },
      { ...order, qty: "1", limit_price: "1.15" },
      { ...order, qty: "3" },
      coins,
      ...type === "order" ? [{ ...coins, symbol: "ETH/BTC" }] : []
    ].map(expected),
    invalidPayloads: [
      ...type === "order" ? [] : [{ ...order, side: "sell" }, { ...coins, symbol: "ETH/BTC" }],
      { ...order, qty: "0" },
      { ...order, legs: [] }
    ],
    answers: {
      submission: {
        acknowledged: about("new"),
        succeeded: about("filled", "2"),
        refused: { answer: refusal(403, 40310000), code: "not_permitted" },
        duplicate: refusal(422, 40010001),
        unauthorized: refusal(401, 40110000),
        unavailable: refusal(429, 42910000)
      },
      status: {
        pending: about("partially_filled", "1"),
        succeeded: about("filled", "2"),
        failed: { answer: about("canceled"), code: "order_canceled" },
        notFound: refusal(404, 40410000)
      }
    },
    references: { own: reference, foreign: replacement },
    idempotencyKey: ({ body }) => Schema.decodeUnknownSync(Schema.fromJsonString(Body))(body).client_order_id,
    secrets: ["PKTESTKEYID", "secret-of-the-paper-account"]
  })
  for (const { name, run } of cases) if (!unmet.has(name)) it.effect(name, () => run)
})

const Body = Schema.Struct({ client_order_id: Schema.String })

/** An adapter whose bank answers in turn, and the targets that it asks for. */
const answeredBy = (
  answers: ReadonlyArray<readonly [status: number, body: object]>,
  options: Partial<Alpaca.AlpacaOptions> = {}
) => {
  const targets: Array<string> = []
  const client = answering(({ pathname, search }) => {
    const [status, body] = answers[targets.push(pathname + search) - 1]!
    return Response.json(body, { status })
  })
  return Effect.map(
    startAdapter(Alpaca.at({ baseUrl: nowhere, keys, ...options }), client),
    (adapter) => ({ ...adapter, targets })
  )
}

const brief = (said: SubmissionAnswer | StatusAnswer): string => {
  switch (said._tag) {
    case "Proven":
      return said.state === "failed" ? `failed ${said.code}` : said.state
    case "Rejected":
      return `failed ${said.code}`
    case "Acknowledged":
      return "submitted"
    case "Succeeded":
      return "succeeded"
    default:
      return "reason" in said ? said.reason : said._tag
  }
}

/** Statuses by Alpaca's document, and what each says without and with a filled part. */
const statuses: ReadonlyArray<readonly [status: string, unfilled: string, filled: string]> = [
  ...("new accepted pending_new accepted_for_bidding held partially_filled pending_cancel pending_replace stopped "
    + "suspended done_for_day calculated replaced").split(" ").map((status) =>
      [status, "submitted", "submitted"] as const
    ),
  ["filled", "succeeded", "succeeded"],
  ["canceled", "failed order_canceled", "succeeded"],
  ["expired", "failed order_expired", "succeeded"],
  ["rejected", "failed order_rejected", "succeeded"]
]

describe("The adapter for Alpaca", () => {
  it.effect.each(statuses.flatMap(([status, unfilled, filled]) => [
    [status, "0", unfilled] as const,
    [status, "0.000000000", unfilled] as const,
    [status, "0.5", filled] as const
  ]))(
    "reads %s with %s filled as %s, in both kinds of answers",
    ([status, quantity, meaning]) =>
      Effect.gen(function*() {
        const body = answered(status, quantity)
        const { readStatus, submit } = yield* answeredBy([[200, body], [200, body]])
        assert.strictEqual(brief(yield* submit(operation, order)), meaning)
        const read = yield* readStatus(operation, null)
        assert.strictEqual(brief(read), meaning)
        assert.deepInclude(read as object, {
          names: { reference, operation_id: id },
          evidence: { status: 200, body }
        })
      })
  )

  it.effect.each<readonly [status: number, body: object, meaning: string]>([
    [403, { code: 40310000, buying_power: "1" }, "failed insufficient_funds"],
    [403, { code: 40310000 }, "failed not_permitted"],
    [403, { code: 40310100 }, "failed not_permitted"],
    [422, { code: 42210000 }, "failed invalid_details"],
    // It may stand for an id that is taken, so it proves nothing.
    [422, { code: 40010001 }, "Uncertain undeclared"],
    [403, { message: "forbidden." }, "Uncertain undeclared"],
    [401, { code: 40110000 }, "NotSent local"],
    [429, { code: 42910000 }, "NotSent refused"],
    [200, answered("pending_review"), "Uncertain undeclared"],
    [500, { code: 50010000 }, "Uncertain undeclared"],
    [504, {}, "Uncertain"]
  ])("takes %s with %o as the answer to an order", ([status, body, meaning]) =>
    Effect.gen(function*() {
      const { submit } = yield* answeredBy([[status, body]])
      const said = yield* Effect.match(submit(operation, order), {
        onSuccess: brief,
        onFailure: (error) =>
          error._tag === "Uncertain"
            ? `Uncertain${error.isUndeclared === true ? " undeclared" : ""}`
            : `NotSent ${error.isLocal === true ? "local" : error.isRefused === true ? "refused" : ""}`
      })
      assert.strictEqual(said, meaning)
    }))

  const replaced = answered("replaced", "0", { replaced_by: replacement })
  const next = (status: string, filled_qty = "0") =>
    answered(status, filled_qty, { id: replacement, client_order_id: "theirs" })

  it.effect.each<readonly [first: object, second: readonly [number, object], meaning: string]>([
    [replaced, [200, next("filled", "2")], "succeeded"],
    [replaced, [200, next("new")], "submitted"],
    [replaced, [200, next("canceled")], "failed order_canceled"],
    // What was filled before the replacement counts.
    [{ ...replaced, filled_qty: "1" }, [200, next("canceled")], "succeeded"],
    [replaced, [200, answered("filled", "2")], "unclear"],
    [replaced, [404, { code: 40410000 }], "unclear"]
  ])("follows %o to the order that replaced it", ([first, second, meaning]) =>
    Effect.gen(function*() {
      const { readStatus, targets } = yield* answeredBy([[200, first], second])
      const read = yield* readStatus(operation, null)
      assert.strictEqual(brief(read), meaning)
      if (read._tag === "Proven") assert.deepStrictEqual(read.names as object, { reference, operation_id: id })
      assert.deepStrictEqual(targets, [
        `/v2/orders:by_client_order_id?client_order_id=${id}`,
        `/v2/orders/${replacement}`
      ])
    }))

  it.effect("ends a read of orders that replace each other without end", () =>
    Effect.gen(function*() {
      const body = answered("replaced", "0", { replaced_by: reference })
      const { readStatus, targets } = yield* answeredBy(Array.from({ length: 20 }, () => [200, body]))
      assert.strictEqual(brief(yield* readStatus(operation, null)), "unclear")
      assert.isBelow(targets.length, 10)
    }))

  const market = { symbol: "AAPL", qty: "1.5", side: "sell", type: "market", time_in_force: "day" }
  const { limit_price: _, ...unpriced } = order

  it.effect.each<readonly [order: object, isOrder: boolean, terms: string | null]>([
    [order, true, "300.50 USD AAPL"],
    [{ ...order, qty: "0.333333333" }, true, "50.09 USD AAPL"],
    [coins, true, "300.50 USD ETH coin"],
    [{ ...order, symbol: "ETH" }, true, "300.50 USD ETH"],
    // Paid in coins. Alpaca takes these pairs without a slash, too.
    ...["ETH/USDT", "ETH/BTC", "ETHUSDT", "ETHBTC", "ETHUSD", "ETH.BTC"].map((symbol) =>
      [{ ...coins, symbol }, true, null] as const
    ),
    [{ ...order, symbol: "BRK.B" }, true, "300.50 USD BRK.B"],
    [{ ...order, symbol: "BAC.PRL" }, true, "300.50 USD BAC.PRL"],
    [{ ...order, side: "sell" }, true, null],
    [{ ...order, symbol: "AAPL250620C00100000" }, true, null],
    [market, true, null],
    [{ ...unpriced, type: "market", qty: undefined, notional: "99.99" }, true, "99.99 USD AAPL"],
    [{ ...unpriced, type: "market", qty: undefined, notional: "99.999" }, false, null],
    // Alpaca refuses a smaller step of a limit price (sub-penny increment): the ledger does before.
    ...["150.255", "1.001", "0.12345", "1.2501"].map((limit_price) =>
      [{ ...order, limit_price }, false, null] as const
    ),
    [{ ...order, symbol: "BRK.B", type: "stop_limit", stop_price: "1", limit_price: "1.001" }, false, null],
    [{ ...order, limit_price: "0.1234" }, true, "0.25 USD AAPL"],
    [{ ...order, limit_price: "1.5" }, true, "3.00 USD AAPL"],
    [{ ...order, limit_price: "1.2500" }, true, "2.50 USD AAPL"],
    [{ ...coins, limit_price: "0.000012345" }, true, "0.01 USD ETH coin"],
    [{ ...coins, symbol: "ETHUSD", limit_price: "1.2345" }, true, null],
    [{ ...market, notional: "10" }, false, null],
    [{ ...market, qty: undefined }, false, null],
    [{ ...order, qty: undefined, notional: "10" }, false, null],
    [unpriced, false, null],
    [{ ...market, limit_price: "1" }, false, null],
    [{ ...market, type: "stop", stop_price: "1" }, true, null],
    [{ ...order, type: "stop_limit", stop_price: "1" }, true, "300.50 USD AAPL"],
    [{ ...market, type: "trailing_stop", trail_percent: "1" }, true, null],
    [{ ...market, type: "trailing_stop", trail_percent: "1", trail_price: "1" }, false, null],
    [{ ...order, extended_hours: true }, true, "300.50 USD AAPL"],
    [{ ...order, extended_hours: true, time_in_force: "ioc" }, false, null],
    [{ ...market, extended_hours: true }, false, null],
    // This is the order of a fence.
    [{ ...order, qty: "1", time_in_force: "gtc", limit_price: "0.0001" }, false, null],
    [{ ...market, qty: 1 }, false, null],
    [{ ...market, order_class: "bracket" }, false, null]
  ])("takes %o as an order: %s, with the terms %s", ([payload, isOrder, terms]) =>
    Effect.gen(function*() {
      const decoders = payloadDecoders(Alpaca.payloads)
      const given = JSON.parse(JSON.stringify(payload)) as typeof Alpaca.Order.Type
      const takes = (type: string) => Effect.map(Effect.exit(decoders.get(type)!(given)), Exit.isSuccess)
      assert.strictEqual(yield* takes("order"), isOrder)
      assert.strictEqual(yield* takes("bounded_order"), terms !== null)
      if (terms !== null) {
        const { amount, currency, payee } = Alpaca.orderTerms(given)
        assert.strictEqual(`${amount} ${currency} ${payee}`, terms)
      }
    }))

  it.effect.each<readonly [baseUrl: string, keyId: string, sentence: RegExp | null]>([
    ["https://api.alpaca.markets", "AK1", null],
    ["https://paper-api.alpaca.markets", "PK1", null],
    ["https://api.alpaca.markets", "PK1", /paper account/u],
    ["https://paper-api.alpaca.markets", "AK1", /does not begin with PK/u],
    ["http://api.alpaca.markets", "AK1", /https/u],
    ["https://api.alpaca.markets/v2", "AK1", /must have no path/u],
    ["https://paper-api.alpaca.markets/v2/", "PK1", /must have no path/u],
    ["https://api.alpaca.markets", "AK 1", /visible ASCII/u],
    ["https://api.alpaca.markets", "", /must be set/u]
  ])(
    "starts at %s with the key %s without a path, or refuses it in one sentence",
    ([baseUrl, keyId, sentence]) =>
      Effect.gen(function*() {
        const refusal = yield* refusalOf(answeredBy([], { baseUrl, keys: { ...keys, keyId: Redacted.make(keyId) } }))
        if (sentence === null) return assert.strictEqual(refusal, "")
        assert.match(refusal, sentence)
        assert.notInclude(refusal, "\n")
        if (keyId !== "") assert.notInclude(refusal, keyId)
      })
  )

  it.effect("is paused by a 403 without a code, which likely refuses the keys, and the order is uncertain", () =>
    Effect.gen(function*() {
      const message = "forbidden."
      const { submit } = yield* answeredBy([[403, { message }], [403, { code: 40310999, message }]])
      const [forbidden, coded] = yield* Effect.replicateEffect(Effect.flip(submit(operation, order)), 2)
      assert.deepInclude(forbidden, { _tag: "Uncertain", isUndeclared: true, isUnauthorized: true })
      assert.notProperty(coded, "isUnauthorized")
    }))

  it.effect("refuses a pair of keys for the other environment when it is found for an operation", () =>
    Effect.gen(function*() {
      const live = { baseUrl: "https://api.alpaca.markets", keys: () => Effect.succeed(keys) }
      const { submit, targets } = yield* answeredBy([], live)
      const failure = yield* Effect.flip(submit(operation, order))
      assert.deepInclude(failure, { _tag: "NotSent", isLocal: true })
      assert.deepStrictEqual(targets, [])
    }))

  it.effect.each([["keys of an owner", true], ["the keys of all", false]] as const)(
    "takes refused keys for a failure of the operation alone if they are %s",
    ([, isOfOwner]) =>
      Effect.gen(function*() {
        const { submit } = yield* answeredBy([[401, {}]], isOfOwner ? { keys: () => Effect.succeed(keys) } : {})
        const failure = yield* Effect.flip(submit(operation, order))
        assert.deepInclude(failure, { _tag: "NotSent", isLocal: true, isRefused: true })
        assert.strictEqual("isOfOperation" in failure, isOfOwner)
      })
  )
})

const scene = (options: SandboxOptions = {}) =>
  Effect.gen(function*() {
    const sandbox = yield* start(options, alpacaDialect)
    const adapter = yield* startAdapter(Alpaca.at({ baseUrl: sandbox.url, keys }), ProviderHttpClient.layer())
    return { sandbox, adapter }
  })

/** A name of an operation that the adapter sends as its key. */
const named = (name: string) => ({ ...operation, id: name }) as ProviderOperation

describe("The simulator of Alpaca", () => {
  it.effect.each<readonly [symbol: string, first: string, half: string, end: string, truth: string]>([
    ["FILLED", "filled", "filled", "filled", "succeeded"],
    ["SLOW", "accepted", "partially_filled", "filled", "succeeded"],
    ["PARTLY", "accepted", "partially_filled", "canceled", "succeeded"],
    ["CANCELED", "accepted", "new", "canceled", "failed"],
    ["EXPIRED", "accepted", "new", "expired", "failed"],
    ["REJECTED", "accepted", "new", "rejected", "failed"],
    ["REPLACED", "accepted", "replaced", "replaced", "succeeded"],
    ["OPEN", "accepted", "accepted", "accepted", "pending"]
  ])(
    "brings an order for SANDBOX.%s from %s over %s to %s",
    ([symbol, first, half, end, truth]) =>
      Effect.gen(function*() {
        const { adapter, sandbox } = yield* scene()
        const one = named("a")
        const seen: Array<string> = []
        const note = (said: SubmissionAnswer | StatusAnswer) => {
          const { evidence } = said as { evidence: Schema.Json }
          const [answer] = [evidence].flat() as unknown as ReadonlyArray<{ readonly body: { readonly status: string } }>
          seen.push(answer!.body.status)
          return brief(said)
        }
        note(yield* adapter.submit(one, { ...order, symbol: `SANDBOX.${symbol}` }))
        yield* TestClock.adjust(600)
        note(yield* adapter.readStatus(one, null))
        yield* TestClock.adjust(600)
        const last = note(yield* adapter.readStatus(one, null))
        assert.deepStrictEqual(seen, [first, half, end])
        assert.strictEqual((yield* sandbox.truth("a")).status, truth)
        assert.strictEqual(last.split(" ")[0], truth === "pending" ? "submitted" : truth)
      })
  )

  it.effect("takes a client_order_id once for ever, and keeps no order that it forbade", () =>
    Effect.gen(function*() {
      const { adapter } = yield* scene()
      yield* adapter.submit(named("a"), { ...order, symbol: "SANDBOX.CANCELED" })
      yield* TestClock.adjust("30 days")
      assert.strictEqual((yield* Effect.flip(adapter.submit(named("a"), order)))._tag, "Uncertain")
      assert.strictEqual(brief(yield* adapter.readStatus(named("a"), null)), "failed order_canceled")
      const forbidden = yield* adapter.submit(named("b"), { ...order, symbol: "SANDBOX.FORBIDDEN" })
      assert.include(["failed not_permitted", "failed insufficient_funds"], brief(forbidden))
      assert.strictEqual(brief(yield* adapter.readStatus(named("b"), null)), "NotFound")
      assert.strictEqual(
        brief(yield* adapter.submit(named("c"), { ...order, symbol: "SANDBOX.NONE" })),
        "failed invalid_details"
      )
    }))

  it.effect("finds its orders again after a restart", () =>
    Effect.gen(function*() {
      const record = `${yield* temporaryDirectory}/record.jsonl`
      const before = yield* Effect.scoped(Effect.gen(function*() {
        const { adapter } = yield* scene({ record })
        yield* adapter.submit(named("a"), { ...order, symbol: "SANDBOX.REPLACED" })
        yield* TestClock.adjust(2000)
        return yield* adapter.readStatus(named("a"), null)
      }))
      const { adapter } = yield* scene({ record })
      assert.deepStrictEqual(yield* adapter.readStatus(named("a"), null), before)
    }))
})
