/**
 * A fence says that the key is taken only where the bank's answer shows exactly that, and is sent only where it can prove something. The
 * adapters are real, and the bank gives one answer to all requests.
 */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, type Layer, Redacted } from "effect"
import type { HttpClient } from "effect/http"
import * as Alpaca from "../../../src/banks/Alpaca.ts"
import {
  type FenceAnswer,
  NextRequest,
  type ProviderAdapter,
  type ProviderReference,
  SendDeadline
} from "../../../src/submission/providers/ProviderAdapter.ts"
import {
  alpacaAccount,
  answering,
  fencedBanks,
  nowhere,
  refusalOf,
  secret,
  startAdapter
} from "../../fixtures/banks/BankClient.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

interface Answered {
  readonly status?: number
  /** The account of the keys. */
  readonly account?: string
  /** How many requests the limit lets begin. */
  readonly permits?: number
}

/** An adapter whose bank answers each request with this object, and the requests. */
const answeredBy = <E>(
  adapter: Layer.Layer<ProviderAdapter, E, HttpClient.HttpClient>,
  body: object,
  { account = alpacaAccount, status = 200 }: Answered = {}
) => {
  const seen: Array<string> = []
  const client = answering(({ pathname }, { method }) => {
    seen.push(`${method} ${pathname}`)
    return pathname === "/v2/account"
      ? Response.json({ account_number: account })
      : Response.json(body, { status })
  })
  return Effect.map(startAdapter(adapter, client), (started) => ({ ...started, seen }))
}

describe("A fence", () => {
  it.effect.each(["increase", "alpaca"] as const)(
    "at %s sends nothing once the time to send it has passed",
    (name) =>
      Effect.gen(function*() {
        const { adapter, payload, type } = fencedBanks[name]
        const { fence, seen } = yield* answeredBy(adapter, {})
        const send = yield* fence!(operationOf({ type }), payload)
        assert.deepInclude(yield* Effect.provideService(send!, SendDeadline, 0), {
          _tag: "NotProven",
          detail: "the time to send the fence has passed"
        })
        assert.isEmpty(seen)
      })
  )
})

describe("A fence whose order has the id . or ..", () => {
  const order = { amount: 115, currency: "USD", created_at: "", transaction_id: null, filled_qty: "0" }
  it.effect.each(
    [
      ["increase", ".", "pending_approval"],
      ["increase", "..", "pending_approval"],
      ["alpaca", ".", "new"],
      ["alpaca", "..", "new"]
    ] as const
  )(
    "at %s cancels nothing for the id %s, whose path is that of another resource",
    ([name, id, status]) =>
      Effect.gen(function*() {
        const { adapter, payload, type } = fencedBanks[name]
        const operation = operationOf({ type })
        const named = { id, client_order_id: operation.id, idempotency_key: operation.id }
        const shape = name === "alpaca"
          ? { qty: "1", side: "buy", type: "limit", time_in_force: "gtc", limit_price: "0.0001" }
          : { type }
        const { fence, seen } = yield* answeredBy(adapter, { ...order, ...named, ...shape, status })
        const send = yield* fence!(operation, payload)
        assert.deepInclude(yield* send!, {
          _tag: "NotProven",
          detail: "the request cannot be encoded: a segment of the path is . or .., which names another resource"
        })
        assert.deepStrictEqual(seen.filter((request) => !request.startsWith("GET ")), [
          name === "alpaca" ? "POST /v2/orders" : "POST /ach_transfers"
        ])
      })
  )
})

describe("A fence at alpaca", () => {
  const { adapter, payload, type } = fencedBanks.alpaca
  const operation = operationOf({ type })
  const keys = { keyId: Redacted.make(secret), secretKey: Redacted.make(secret) }
  const own = {
    id: "order_1",
    client_order_id: operation.id,
    status: "canceled",
    filled_qty: "0",
    symbol: "AAPL",
    qty: "1",
    side: "buy",
    type: "limit",
    time_in_force: "gtc",
    limit_price: "0.0001"
  }

  it.effect.each<readonly [different: object, fence: FenceAnswer["_tag"], status: string]>([
    ...[{}, { qty: "1.00", limit_price: "0.000100", symbol: "BTC/USD" }]
      .map((same) => [same, "Occupied", "failed order_canceled"] as const),
    ...[
      // Alpaca ended it, and does not say that it keeps its id.
      { status: "rejected" },
      { status: "expired", filled_qty: "0.00" },
      { status: "new" },
      { status: "filled", filled_qty: "1" },
      { status: "canceled", filled_qty: "0.1" },
      { status: "partially_filled", filled_qty: "0.1" }
    ].map((ended) => [ended, "NotProven", "unclear"] as const),
    // Each other shape is that of the first order.
    ...[
      { type: "market", limit_price: null },
      { type: "market", limit_price: "" },
      ...["", null, "0", "0.00009", "0.00010000000000000000000001"].map((limit_price) => ({ limit_price })),
      { qty: "2" },
      { qty: null },
      { side: "sell" },
      { type: "stop_limit" },
      { time_in_force: "day" }
    ].map((first) => [first, "Known", "failed order_canceled"] as const)
  ])(
    "knows its order by the exact shape: with %o it is %s, and a status read %s",
    ([different, tag, status]) =>
      Effect.gen(function*() {
        const { fence, readStatus } = yield* answeredBy(adapter, { ...own, ...different })
        const answer = yield* Effect.flatMap(fence!(operation, payload), (send) => send!)
        assert.strictEqual(answer._tag, tag)
        const read = yield* readStatus(operation, null)
        assert.strictEqual(
          read._tag === "Proven" ? `${read.state} ${"code" in read ? read.code : ""}` : "reason" in read && read.reason,
          status
        )
      })
  )

  it.effect.each([
    ...["F", "AAPL", "GOOGL", "BRK.B"].map((symbol) => [symbol, true] as const),
    ...["BTC/USD", "BTCUSD", "BTCUSDT", "ETHBTC", "XXUSD", "XUSDT", "XUSDC", "XXBTC"]
      .map((pair) => [pair, false] as const),
    ...["AAPL250620C00100000", "ABCDEF", "AAPL1"].map((other) => [other, false] as const)
  ])("is for what can only be a stock: %s %s", ([symbol, isStock]) =>
    Effect.gen(function*() {
      const { fence } = yield* answeredBy(adapter, own)
      assert.strictEqual((yield* fence!(operation, { ...payload, symbol })) !== null, isStock)
    }))

  const found = () => Effect.succeed(keys)

  it.effect("is off by default", () =>
    Effect.gen(function*() {
      for (const given of [keys, found]) {
        assert.isUndefined((yield* answeredBy(Alpaca.at({ baseUrl: nowhere, keys: given }), own)).fence)
      }
    }))

  it.effect.each<[Partial<Alpaca.AlpacaOptions>, string]>([
    [{ keys: found, account: alpacaAccount }, "fence of Alpaca requires keys that are no function"],
    [{}, "fence of Alpaca requires account"],
    ...["", " ", "PA1"].map((account): [Partial<Alpaca.AlpacaOptions>, string] => [{ account }, "must be its number"])
  ])("is refused at the start with %j: %s", ([options, why]) =>
    Effect.gen(function*() {
      const adapter = Alpaca.at({ baseUrl: nowhere, fence: true, keys, ...options })
      assert.include(yield* refusalOf(answeredBy(adapter, own)), why)
    }))

  it.effect("is sent only once the keys name the account of the settings", () =>
    Effect.gen(function*() {
      const { fence, seen } = yield* answeredBy(adapter, own, { account: "PA0000000000" })
      const answer = yield* Effect.flatMap(fence!(operation, payload), (send) => send!)
      assert.deepInclude(answer, { _tag: "NotProven", reason: "unclear" })
      assert.deepStrictEqual(seen, ["GET /v2/account"])
    }))

  const fromEnvironment = (APCA_FENCE_ACCOUNT?: string) =>
    Effect.provideService(
      answeredBy(Alpaca.layer, own),
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromUnknown({
        APCA_API_BASE_URL: nowhere,
        APCA_API_KEY_ID: "key",
        APCA_API_SECRET_KEY: "secret",
        ...APCA_FENCE_ACCOUNT === undefined ? {} : { APCA_FENCE_ACCOUNT }
      })
    )

  it.effect.each([undefined, "", " "])("is off in the environment with %j", (variable) =>
    Effect.gen(function*() {
      assert.isUndefined((yield* fromEnvironment(variable)).fence)
    }))

  it.effect("is on in the environment with the number of its account, which each claim then names", () =>
    Effect.gen(function*() {
      const { account, fence, limit } = yield* fromEnvironment(alpacaAccount)
      assert.isDefined(fence)
      // As Alpaca documents it for each account.
      assert.deepStrictEqual(limit, { requests: 200, interval: "1 minute" })
      assert.strictEqual(account, `127.0.0.1 ${alpacaAccount}`)
    }))

  it.effect.each(["true", "off", "1", "false0", "PA-3717"])(
    "is refused at the start with the variable %j",
    (variable) =>
      Effect.gen(function*() {
        assert.include(yield* refusalOf(fromEnvironment(variable)), "APCA_FENCE_ACCOUNT) must be its number")
      })
  )
})

describe("A fence at increase", () => {
  const { adapter, payload, type } = fencedBanks.increase

  /** What the fence says of a bank that answers each request like this, and the requests. */
  const fencedWith = Effect.fnUntraced(function*(more: object, { permits = 3, ...answered }: Answered = {}) {
    let free = permits
    const operation = operationOf({ type })
    const transfer = {
      id: "ach_transfer_1",
      idempotency_key: operation.id,
      type: "ach_transfer",
      status: "pending_approval",
      amount: 115,
      currency: "USD",
      created_at: "2026-05-01T00:00:00Z",
      transaction_id: null
    }
    const { fence, seen } = yield* answeredBy(adapter, { ...transfer, ...more }, answered)
    const answer = yield* Effect.flatMap(fence!(operation, payload), (send) => send!).pipe(
      Effect.provideService(NextRequest, Effect.sync(() => --free > 0))
    )
    return { answer, seen }
  })

  it.effect("proves nothing with a key whose owner does not have the account that pays", () =>
    Effect.gen(function*() {
      const problem = { type: "object_not_found_error", status: 404, title: "not found" }
      assert.strictEqual((yield* fencedWith(problem, { status: 404 })).answer._tag, "NotProven")
    }))

  it.effect("cancels no transfer of another operation, which an answer shows", () =>
    Effect.gen(function*() {
      const { answer, seen } = yield* fencedWith({ idempotency_key: "another-key" })
      assert.deepStrictEqual(answer, {
        _tag: "Known",
        names: { reference: "ach_transfer_1" as ProviderReference, operation_id: "another-key" }
      })
      assert.deepStrictEqual(seen, ["POST /ach_transfers"])
    }))

  it.effect.each([1, 2])(
    "sends %i requests if the limit has permits for no more, and proves nothing",
    (permits) =>
      Effect.gen(function*() {
        const { answer, seen } = yield* fencedWith({}, { permits })
        assert.deepInclude(answer, { _tag: "NotProven", reason: "unclear" })
        assert.lengthOf(seen, permits)
      })
  )

  it.effect("proves nothing while its transfer still waits after the cancellation", () =>
    Effect.gen(function*() {
      const { answer, seen } = yield* fencedWith({})
      assert.strictEqual(answer._tag, "NotProven")
      assert.deepStrictEqual(seen, [
        "POST /ach_transfers",
        "POST /ach_transfers/ach_transfer_1/cancel",
        "GET /ach_transfers"
      ])
    }))
})
