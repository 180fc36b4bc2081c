/**
 * The orders that the adapter for Alpaca takes as payloads, and the order of its fence.
 */
import * as Schema from "effect/Schema"
import { Terms } from "../domain/Terms.ts"

export const text = (pattern: RegExp, expected: string) => Schema.String.check(Schema.isPattern(pattern, { expected }))

/** Decimal text with at most nine digits after the point. */
const Decimal = text(
  /^(?=.*[1-9])(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,9})?$/u,
  "a number above zero as text, such as \"1.5\""
)

const Fields = Schema.Struct({
  symbol: text(/^[A-Z0-9][A-Z0-9.]{0,24}(?:\/[A-Z]{3,5})?$/u, "a symbol, such as AAPL, or a pair, such as BTC/USD"),
  /** Shares, contracts or coins. */
  qty: Schema.optionalKey(Decimal),
  /** Amount to trade for, in the currency of the price. */
  notional: Schema.optionalKey(Decimal),
  side: Schema.Literals(["buy", "sell"]),
  type: Schema.Literals(["market", "limit", "stop", "stop_limit", "trailing_stop"]),
  time_in_force: Schema.Literals(["day", "gtc", "opg", "cls", "ioc", "fok"]),
  limit_price: Schema.optionalKey(Decimal),
  stop_price: Schema.optionalKey(Decimal),
  trail_price: Schema.optionalKey(Decimal),
  trail_percent: Schema.optionalKey(Decimal),
  extended_hours: Schema.optionalKey(Schema.Boolean),
  position_intent: Schema.optionalKey(Schema.Literals(["buy_to_open", "buy_to_close", "sell_to_open", "sell_to_close"]))
})

/** The prices that an order of each type has: the one set or the other. */
const pricesOf: Readonly<Record<typeof Fields.Type.type, ReadonlyArray<string>>> = {
  market: [""],
  limit: ["limit_price"],
  stop: ["stop_price"],
  stop_limit: ["limit_price stop_price"],
  trailing_stop: ["trail_price", "trail_percent"]
}
const prices = ["limit_price", "stop_price", "trail_price", "trail_percent"] as const

/**
 * The order of a fence, for stocks: no listed stock trades as low, so it finds no seller. It is good until it is cancelled. Coins trade at any price,
 * and options have another step of prices, so there is none for them.
 */
const unfillable = { qty: "1", side: "buy", type: "limit", time_in_force: "gtc", limit_price: "0.0001" } as const

/**
 * Whether an order is that of a fence, by its exact shape: Alpaca compares no bodies under a `client_order_id`, so nothing else tells it from
 * the first order. The symbol does not count. The numbers are decimal text, to which Alpaca may add zeros.
 */
export const isUnfillable = Schema.is(Schema.Struct({
  qty: text(/^1(?:\.0+)?$/u, unfillable.qty),
  side: Schema.Literal(unfillable.side),
  type: Schema.Literal(unfillable.type),
  time_in_force: Schema.Literal(unfillable.time_in_force),
  limit_price: text(/^0\.00010*$/u, unfillable.limit_price)
}))

/**
 * An order, with the names of Alpaca's document. Numbers are text. Bracket, OCO, OTO and multi-leg orders are several orders at
 * once, and cannot be one operation.
 */
export const Order = Fields.check(
  Schema.makeFilter(
    ({ notional, qty, type }) => notional === undefined ? qty !== undefined : qty === undefined && type === "market",
    { expected: "either qty, or notional with the type market" }
  ),
  Schema.makeFilter(
    (order) => pricesOf[order.type].includes(prices.filter((price) => order[price] !== undefined).join(" ")),
    { expected: "the prices of its type, such as limit_price for a limit order, and no others" }
  ),
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

/** The product of two numbers as text, rounded up to cents. */
const productOf = (one: string, other: string): string => {
  const digits = (number: string) => (number.split(".")[1] ?? "").length
  const unit = 10n ** BigInt(digits(one) + digits(other))
  const cents = (BigInt(one.replace(".", "")) * BigInt(other.replace(".", "")) * 100n + unit - 1n) / unit
  return `${cents / 100n}.${String(cents % 100n).padStart(2, "0")}`
}

/**
 * The terms of a `BoundedOrder`: the most that it pays, in the currency of its price, and the asset as payee. The coin of `ETH/USD` is
 * `ETH coin`, because a stock may have the symbol `ETH`. Of other orders they say nothing.
 */
export const orderTerms = ({ limit_price = "1", notional, qty = "1", symbol }: Order): Terms => {
  const [asset = symbol, currency] = symbol.split("/")
  return {
    amount: productOf(notional ?? qty, limit_price),
    currency: currency ?? "USD",
    payee: currency === undefined ? asset : `${asset} coin`
  }
}

/**
 * Whether only a stock can have the symbol: `AAPL`, `BRK.B`, or five letters that are no pair of coins. Alpaca still takes pairs by their old
 * symbols, such as `BTCUSD`.
 */
const isStock = (symbol: string): boolean =>
  /^(?:[A-Z]{1,4}(?:\.[A-Z])?|(?!.*(?:USD|USDT|USDC|BTC)$)[A-Z]{5})$/u.test(symbol)

/** The order of a fence. Null: the asset may have none that cannot fill, so a person asks the broker. */
export const fenceOf = ({ symbol }: Order) => isStock(symbol) ? { ...unfillable, symbol } : null

/**
 * Whether the price of the symbol is surely the dollars of one piece: a stock, also a preferred share or a warrant, or a pair with a slash
 * and USD. The price of an option is that of one of 100 shares. A symbol without a slash may be an old one of a pair that is paid in coins,
 * such as `ETHBTC`.
 */
const isPaidInDollars = (symbol: string): boolean =>
  isStock(symbol) || /^[A-Z]+\.(?!USD|BTC)[A-Z]+$/u.test(symbol) || symbol.endsWith("/USD")

/**
 * A purchase that bounds the dollars that it pays, by `notional` or by `qty` and `limit_price`. A type of operation with terms needs it,
 * because the terms must be known before the order is sent.
 */
export const BoundedOrder = Order.check(
  Schema.makeFilter(({ symbol }) => isPaidInDollars(symbol), {
    expected: "the symbol of a stock, or a pair with a slash and USD, such as BTC/USD: others may be paid in coins"
  }),
  Schema.makeFilter(
    (order) =>
      order.side === "buy" && (order.notional ?? order.limit_price) !== undefined
      && Schema.is(Terms)(orderTerms(order)),
    { expected: "a purchase with notional or limit_price, of at most 18 digits of dollars" }
  )
)
