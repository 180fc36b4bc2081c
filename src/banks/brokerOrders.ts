/**
 * Orders for stocks, options and coins, for the adapter of any broker in the United States: the kinds of FIX (Side, OrdType, TimeInForce) under
 * the names that brokers' JSON has for them, and the most that a purchase pays.
 */
import * as Schema from "effect/Schema"
import { decimalText, productInCents, textLike } from "../domain/PayloadText.ts"
import { isTerms, type Terms } from "../domain/Terms.ts"

const Decimal = decimalText({ whole: 12, fraction: 9, expected: "a number above zero as text, such as \"1.5\"" })

/** The members of one simple order. Numbers are text. */
export const orderFields = {
  symbol: textLike(/^[A-Z0-9][A-Z0-9.]{0,24}(?:\/[A-Z]{3,5})?$/u, "a symbol, such as AAPL, or a pair, such as BTC/USD"),
  /** Shares, contracts or coins. */
  qty: Schema.optionalKey(Decimal),
  /** Amount to trade for, in the currency of the price. Alpaca refuses a third digit after the point (`42210000`). */
  notional: Schema.optionalKey(
    decimalText({
      whole: 12,
      fraction: 2,
      expected: "an amount above zero with at most two decimals, such as \"12.50\""
    })
  ),
  side: Schema.Literals(["buy", "sell"]),
  type: Schema.Literals(["market", "limit", "stop", "stop_limit", "trailing_stop"]),
  time_in_force: Schema.Literals(["day", "gtc", "opg", "cls", "ioc", "fok"]),
  limit_price: Schema.optionalKey(Decimal),
  stop_price: Schema.optionalKey(Decimal),
  trail_price: Schema.optionalKey(Decimal),
  trail_percent: Schema.optionalKey(Decimal)
}
const Fields = Schema.Struct(orderFields)
type Fields = typeof Fields.Type

/** The prices that an order of each type has: the one set or the other. */
const pricesOf: Readonly<Record<Fields["type"], ReadonlyArray<string>>> = {
  market: [""],
  limit: ["limit_price"],
  stop: ["stop_price"],
  stop_limit: ["limit_price stop_price"],
  trailing_stop: ["trail_price", "trail_percent"]
}
const prices = ["limit_price", "stop_price", "trail_price", "trail_percent"] as const

export const hasOneQuantity = Schema.makeFilter(
  ({ notional, qty, type }: Fields) =>
    notional === undefined ? qty !== undefined : qty === undefined && type === "market",
  { expected: "either qty, or notional with the type market" }
)

export const hasPricesOfType = Schema.makeFilter(
  (order: Fields) => pricesOf[order.type].includes(prices.filter((price) => order[price] !== undefined).join(" ")),
  { expected: "the prices of its type, such as limit_price for a limit order, and no others" }
)

/**
 * The terms of a bounded purchase: the most that it pays, in the currency of its price, and the asset as payee. The coin of `ETH/USD` is
 * `ETH coin`, because a stock may have the symbol `ETH`. Of other orders they say nothing.
 */
export const orderTerms = ({ limit_price = "1", notional, qty = "1", symbol }: Fields): Terms => {
  const [asset = symbol, currency] = symbol.split("/")
  return {
    amount: productInCents(notional ?? qty, limit_price),
    currency: currency ?? "USD",
    payee: currency === undefined ? asset : `${asset} coin`
  }
}

/**
 * Whether only a stock can have the symbol: `AAPL`, `BRK.B`, or five letters that are no pair of coins. Brokers still take pairs by their old
 * symbols, such as `BTCUSD`.
 */
export const isStock = (symbol: string): boolean =>
  /^(?:[A-Z]{1,4}(?:\.[A-Z])?|(?!.*(?:USD|USDT|USDC|BTC)$)[A-Z]{5})$/u.test(symbol)

/**
 * Whether the price of the symbol is surely the dollars of one piece: a stock, also a preferred share or a warrant, or a pair with a slash
 * and USD. The price of an option is that of one of 100 shares. A symbol without a slash may be an old one of a pair that is paid in coins,
 * such as `ETHBTC`.
 */
const hasPriceInDollars = (symbol: string): boolean =>
  isStock(symbol) || /^[A-Z]+\.(?!USD|BTC)[A-Z]+$/u.test(symbol) || symbol.endsWith("/USD")

/**
 * The smallest step of a limit price: a cent, and below one dollar a hundredth of one (17 CFR 242.612). It is that of shares: coins and
 * options have others.
 */
export const hasPriceStep = Schema.makeFilter(
  ({ limit_price = "1", symbol }: Fields) =>
    !hasPriceInDollars(symbol) || symbol.includes("/")
    || /^(?:0\.[0-9]{1,4}0*|[1-9][0-9]*(?:\.[0-9]{1,2}0*)?)$/u.test(limit_price),
  { expected: "a limit_price with at most two decimals, or four below 1: a stock has no smaller step" }
)

export const isPaidInDollars = Schema.makeFilter(({ symbol }: Fields) => hasPriceInDollars(symbol), {
  expected: "the symbol of a stock, or a pair with a slash and USD, such as BTC/USD: others may be paid in coins"
})

/** Only such a purchase has terms: they must be known before the order is sent. */
export const isBoundedPurchase = Schema.makeFilter(
  (order: Fields) =>
    order.side === "buy" && (order.notional ?? order.limit_price) !== undefined && isTerms(orderTerms(order)),
  { expected: "a purchase with notional or limit_price, of at most 18 digits of dollars" }
)
