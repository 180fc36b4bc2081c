/**
 * Alpaca (Trading API, `/v2/orders`): one operation is one simple order for stocks, options or crypto. The operation's id is the
 * `client_order_id`, which Alpaca takes once for ever, also after the end of its order.
 *
 * An operation is `failed` if its order has ended and nothing was filled, and `succeeded` if it has ended and anything was: money has moved
 * then, and a client that orders again would buy twice. The evidence has `qty`, `filled_qty` and `filled_avg_price`. Clients that
 * want all or nothing order with `fok`.
 *
 * Alpaca documents that status and `code` of a refusal are stable, and that `message` is not. So nothing here depends on a message.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { textLike } from "../domain/PayloadText.ts"
import type { ProviderOperation } from "../domain/Submission.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import { type ProviderAdapter, ProviderReference } from "../submission/providers/ProviderAdapter.ts"
import * as BrokerOrders from "./brokerOrders.ts"

/**
 * The order of a fence, for stocks: no listed stock trades as low, so it finds no seller. It is good until it is cancelled. Coins trade at any price,
 * and options have another step of prices, so there is none for them.
 */
const unfillable = { qty: "1", side: "buy", type: "limit", time_in_force: "gtc", limit_price: "0.0001" } as const

/**
 * Whether an order is that of a fence, by its exact shape: Alpaca compares no bodies under a `client_order_id`, so nothing else tells it from
 * the first order. The symbol does not count. The numbers are decimal text, to which Alpaca may add zeros.
 */
const isUnfillable = Schema.is(Schema.Struct({
  qty: textLike(/^1(?:\.0+)?$/u, unfillable.qty),
  side: Schema.Literal(unfillable.side),
  type: Schema.Literal(unfillable.type),
  time_in_force: Schema.Literal(unfillable.time_in_force),
  limit_price: textLike(/^0\.00010*$/u, unfillable.limit_price)
}))

/**
 * An order, with the names of Alpaca's document. Numbers are text. Bracket, OCO, OTO and multi-leg orders are several orders at
 * once, and cannot be one operation.
 */
export const Order = Schema.Struct({
  ...BrokerOrders.orderFields,
  extended_hours: Schema.optionalKey(Schema.Boolean),
  position_intent: Schema.optionalKey(Schema.Literals(["buy_to_open", "buy_to_close", "sell_to_open", "sell_to_close"]))
}).check(
  BrokerOrders.hasOneQuantity,
  BrokerOrders.hasPricesOfType,
  BrokerOrders.hasPriceStep,
  Schema.makeFilter((order) => !isUnfillable(order), {
    expected:
      `no purchase of ${unfillable.qty} for ${unfillable.limit_price} until cancelled, which is the order of a fence`
  }),
  Schema.makeFilter(
    ({ extended_hours, time_in_force, type }) =>
      extended_hours !== true || type === "limit" && (time_in_force === "day" || time_in_force === "gtc"),
    { expected: "extended_hours with the type limit and the time in force day or gtc alone" }
  )
)
export type Order = typeof Order.Type

/**
 * A purchase that bounds the dollars that it pays, by `notional` or by `qty` and `limit_price`. A type of operation with terms needs it,
 * because the terms must be known before the order is sent.
 */
const BoundedOrder = Order.check(BrokerOrders.isPaidInDollars, BrokerOrders.isBoundedPurchase)

/** The order of a fence. Null: the asset may have none that cannot fill, so a person asks the broker. */
const fenceOf = ({ symbol }: Order) => BrokerOrders.isStock(symbol) ? { ...unfillable, symbol } : null

export { orderTerms } from "./brokerOrders.ts"

/** What Alpaca can carry out, by type of operation. */
export const payloads = { order: Order, bounded_order: BoundedOrder }

/**
 * In these states an order may be filled yet. `stopped`: a trade is guaranteed, and has not happened yet. `done_for_day`: no more on this day; an
 * order that is good for longer goes on at the next. `replaced`: by another order, or by a change of the stock.
 */
const open = [
  ...["new", "accepted", "pending_new", "accepted_for_bidding", "held", "suspended", "pending_cancel"] as const,
  ...["partially_filled", "pending_replace", "replaced", "stopped", "done_for_day", "calculated"] as const
]

/** The answer with an order. */
const Answered = Schema.Struct({
  id: ProviderReference,
  client_order_id: Schema.String,
  status: Schema.Literals([...open, "filled", "canceled", "expired", "rejected"]),
  filled_qty: textLike(/^[0-9]+(?:\.[0-9]+)?$/u, "a number as text"),
  replaced_by: Schema.optionalKey(Schema.NullOr(ProviderReference)),
  // By these the order of a fence is known.
  qty: Schema.optionalKey(Schema.NullOr(Schema.String)),
  side: Schema.optionalKey(Schema.String),
  type: Schema.optionalKey(Schema.String),
  time_in_force: Schema.optionalKey(Schema.String),
  limit_price: Schema.optionalKey(Schema.NullOr(Schema.String))
})
type Answered = typeof Answered.Type

/** What clients read of an order that ended without a fill, by code. Alpaca's own words stay in the evidence. */
const failures = {
  insufficient_funds: { message: "The account does not have the buying power for this order." },
  invalid_details: { message: "The broker does not take an order of this kind for this symbol at this time." },
  not_permitted: { message: "The account may not place this order, for example because it lacks the shares." },
  order_canceled: { message: "The order was cancelled before anything was filled." },
  order_expired: { message: "The order expired before anything was filled." },
  order_rejected: { message: "The broker or the exchange rejected the order. Nothing was filled." }
}

const isFilled = ({ filled_qty, status }: Answered): boolean => status === "filled" || /[1-9]/u.test(filled_qty)

const isOpen = ({ status }: Answered): boolean => (open as ReadonlyArray<string>).includes(status)

/** Of a fence only if the ledger lost its record. If its order is cancelled unfilled, nothing was ordered, and it keeps the id. */
const unproven = (order: Answered) =>
  isUnfillable(order) && (order.status !== "canceled" || isFilled(order))
    ? { reason: "unclear" as const, detail: `the order of a fence is ${order.status}` }
    : null

const answered = HttpProvider.declareOrder({
  schema: Answered,
  names: ({ client_order_id, id }) => ({ reference: id, operation_id: client_order_id }),
  // What was filled before a replacement counts.
  result: (order, earlier) => {
    if (isOpen(order)) return { state: "submitted" }
    return [...earlier, order].some(isFilled)
      ? { state: "succeeded" }
      : { state: "failed", code: `order_${order.status}` }
  },
  evidence: HttpProvider.evidenceOf,
  unproven,
  replacedBy: ({ replaced_by: reference, status }) =>
    status !== "replaced" || reference === undefined || reference === null
      ? null
      : { reference, path: `/v2/orders/${encodeURIComponent(reference)}` }
})

/** An error by its code, which is stable. */
const error = (...codes: ReadonlyArray<number>) =>
  Schema.Struct({ code: Schema.Literals(codes), message: Schema.optionalKey(Schema.Json) })
const NoBuyingPower = Schema.Struct({ ...error(40310000).fields, buying_power: Schema.String })
const refusal = (schema: Schema.ConstraintDecoder<Schema.Json>, code: keyof typeof failures) =>
  HttpProvider.refusal(schema, code)

/** Answers with which Alpaca did nothing: wrong keys, and more than 200 requests in a minute. */
const nothingDone = { 401: HttpProvider.wrongCredentials, 429: HttpProvider.refusedForNow }

const decodeSubmission = HttpProvider.byStatus({
  ...nothingDone,
  200: answered.submitted,
  403: HttpProvider.firstOf(
    refusal(NoBuyingPower, "insufficient_funds"),
    refusal(error(40310000, 40310100), "not_permitted"),
    HttpProvider.maybeUnauthorized
  ),
  // 40010001 is not declared: it stands for an invalid member, and for a `client_order_id` that was taken before. A status read decides.
  422: refusal(error(42210000), "invalid_details")
})

/** A cancelled order keeps the id. Whether a rejected or expired one does is not known: the fence stays uncertain, as with a fill. */
const decodeFence = HttpProvider.byStatus({
  ...nothingDone,
  200: answered.holder((order) => {
    if (!isUnfillable(order)) return "first"
    if (isFilled(order)) return new HttpProvider.NotUnderstood({ reason: `the order of the fence is ${order.status}` })
    return order.status === "canceled" ? "cancelled" : "waiting"
  }),
  // The `client_order_id` was taken before, or a member is invalid.
  422: HttpProvider.onBody(error(40010001), () => HttpProvider.KeyHolder.Unnamed())
})

const decodeStatus = HttpProvider.byStatus({
  ...nothingDone,
  200: answered.read,
  404: HttpProvider.notFound(error(40410000))
})

/** The hosts of real money and of play money. */
const live = "api.alpaca.markets"
const paper = "paper-api.alpaca.markets"

/** The pair of keys of an account. */
interface KeyPair {
  readonly keyId: Redacted.Redacted<string>
  readonly secretKey: Redacted.Redacted<string>
}

/** Refuses keys that cannot be right at this address: the ids of paper accounts alone begin with `PK`. */
const headersAt = (baseUrl: string) => ({ keyId, secretKey }: KeyPair) => {
  HttpProvider.requireSecret("the secret key of Alpaca (APCA_API_SECRET_KEY)", secretKey)
  HttpProvider.requireSecret("the key id of Alpaca (APCA_API_KEY_ID)", keyId)
  const isPaper = Redacted.value(keyId).startsWith("PK")
  const { hostname } = new URL(baseUrl)
  if (hostname === live && isPaper) {
    throw new TypeError(`the key of a paper account works at https://${paper} alone, and APCA_API_BASE_URL is ${live}`)
  }
  if (hostname === paper && !isPaper) {
    throw new TypeError(
      `https://${paper} takes the keys of paper accounts alone, and APCA_API_KEY_ID does not begin with PK`
    )
  }
  return { "apca-api-key-id": keyId, "apca-api-secret-key": secretKey }
}

/** The settings of the adapter. */
export interface AlpacaOptions extends Pick<HttpProvider.HttpProviderOptions, "deadlines" | "limit"> {
  /** The address: `https://api.alpaca.markets`, or `https://paper-api.alpaca.markets` without money. */
  readonly baseUrl: string
  /** The keys of the account, or a function that finds those of the operation's resource owner or provider connection. */
  readonly keys: KeyPair | ((operation: ProviderOperation) => Effect.Effect<KeyPair, unknown>)
  /** The number of the account that the keys name (`account_number`). Change it with the account, and not with its keys. */
  readonly account?: string
  /**
   * Whether an order for a stock that cannot fill, and is cancelled, occupies the id of a lost request. An order names no account, so this
   * proves something only at the account that got the request: it requires `account`, and `keys` that are no function. Default: false.
   */
  readonly fence?: boolean
}

/** The adapter. Dies with a `TypeError` if the address or the keys cannot be right. */
export const at = (
  { account, fence = false, keys, ...options }: AlpacaOptions
): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> =>
  Layer.unwrap(Effect.sync(() => {
    const baseUrl = HttpProvider.requireAddress("the address of Alpaca (APCA_API_BASE_URL)", options.baseUrl, [
      live,
      paper
    ])
    const credentials = HttpProvider.credentialsFrom(keys, headersAt(baseUrl))
    if (fence && typeof keys === "function") {
      throw new TypeError(
        "fence of Alpaca requires keys that are no function: a fence at another account than that of the request proves nothing"
      )
    }
    if (fence && account === undefined) {
      throw new TypeError("fence of Alpaca requires account: elsewhere its key is free")
    }
    if (account !== undefined && !/^(?=.*[0-9])[A-Z0-9]{6,32}$/u.test(account)) {
      throw new TypeError("the account of Alpaca (APCA_FENCE_ACCOUNT) must be its number, such as PA3717PJAYWN")
    }
    const { hostname } = new URL(baseUrl)
    return HttpProvider.layer({
      ...options,
      baseUrl,
      account: account === undefined ? hostname : `${hostname} ${account}`,
      payloads,
      failures,
      // It carries a request out however late it arrives, so "not found" is never final.
      promises: { keys: "for_ever", readByOperationId: "yes" },
      ...credentials,
      submit: {
        request: ({ id }, order, _type) => ({ path: "/v2/orders", body: { ...order, client_order_id: id } }),
        decode: decodeSubmission
      },
      fence: !fence ? undefined : {
        request: ({ id }, order, _type) => {
          const body = fenceOf(order)
          return body === null ? null : { path: "/v2/orders", body: { ...body, client_order_id: id } }
        },
        decode: decodeFence,
        checkAccount: { path: "/v2/account", member: "account_number", value: account! },
        cancel: (reference) => ({ method: "DELETE", path: `/v2/orders/${encodeURIComponent(reference)}` })
      },
      status: {
        request: ({ id }) => ({ path: `/v2/orders:by_client_order_id?client_order_id=${id}` }),
        decode: decodeStatus
      }
    })
  }))

/** The requests that Alpaca takes for an account. */
const limit = { requests: 200, interval: "1 minute" } as const

/**
 * The adapter with this limit, and with its settings from the environment: APCA_API_BASE_URL, APCA_API_KEY_ID, APCA_API_SECRET_KEY, and
 * APCA_FENCE_ACCOUNT, the number of the account that the keys always name, which turns the fence on. Default: no fence.
 */
export const layer = Layer.unwrap(
  Effect.flatMap(
    Config.all({
      baseUrl: Config.String("APCA_API_BASE_URL"),
      keyId: Config.Redacted("APCA_API_KEY_ID"),
      secretKey: Config.Redacted("APCA_API_SECRET_KEY"),
      fenceAccount: Config.String("APCA_FENCE_ACCOUNT").pipe(Config.withDefault(""))
    }),
    ({ baseUrl, fenceAccount, ...keys }) => {
      const account = fenceAccount.trim()
      return Effect.sync(() => at({ baseUrl, keys, limit, ...account === "" ? {} : { account, fence: true } }))
    }
  )
)
