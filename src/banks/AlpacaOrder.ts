/**
 * The orders that the adapter for Alpaca takes as payloads, and the order of its fence.
 */
import * as Schema from "effect/Schema"
import { textLike } from "../domain/PayloadText.ts"
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
export const isUnfillable = Schema.is(Schema.Struct({
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
export const BoundedOrder = Order.check(BrokerOrders.isPaidInDollars, BrokerOrders.isBoundedPurchase)

/** The order of a fence. Null: the asset may have none that cannot fill, so a person asks the broker. */
export const fenceOf = ({ symbol }: Order) => BrokerOrders.isStock(symbol) ? { ...unfillable, symbol } : null
