/**
 * Alpaca as a dialect of the sandbox: orders by `client_order_id`, which is taken once for ever. An order is `accepted`, `new` and
 * `partially_filled` on its way, and ends as `filled`, `canceled`, `expired` or `rejected`. Another order may replace it, and a cancelled
 * one may be partly filled. An order has no text for an instruction, so symbols instruct: see `instructed`.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import {
  type Answer,
  answered,
  type Demand,
  type Dialect,
  jsonAnswer,
  type RequestHead,
  type Saying
} from "../Dialect.ts"
import { SubmissionKey } from "../Protocol.ts"
import type { Instruction, KnownSubmission } from "../SandboxOutcome.ts"
import { describeIssues } from "../Wire.ts"

const optional = Schema.optionalKey(Schema.String)

/** What the bank keeps of a request. */
const Request = Schema.Struct({
  client_order_id: SubmissionKey.check(Schema.isMaxLength(128)),
  symbol: Schema.String,
  qty: optional,
  notional: optional,
  side: Schema.Literals(["buy", "sell"]),
  type: Schema.Literals(["market", "limit", "stop", "stop_limit", "trailing_stop"]),
  time_in_force: Schema.Literals(["day", "gtc", "opg", "cls", "ioc", "fok"]),
  limit_price: optional,
  stop_price: optional,
  trail_price: optional,
  trail_percent: optional,
  extended_hours: Schema.optionalKey(Schema.Boolean)
})
type Request = typeof Request.Type

const decodeRequest = Schema.decodeUnknownResult(Schema.fromJsonString(Request))
const isRequest = Schema.is(Request)

/** How an order ends. `partly`: it is cancelled, and half of it was filled. `replaced`: by an order that is filled. */
type Ending = "filled" | "partly" | "replaced" | "canceled" | "expired" | "rejected"

const later = { settle_after_ms: 1000 }

/** Symbols that instruct the simulator. The seed decides about orders for others. */
const instructed: Readonly<Record<string, readonly [Instruction, Ending]>> = {
  "SANDBOX.FILLED": [{ outcome: "succeeded" }, "filled"],
  "SANDBOX.SLOW": [{ outcome: "succeeded", ...later }, "filled"],
  "SANDBOX.PARTLY": [{ outcome: "succeeded", ...later }, "partly"],
  "SANDBOX.REPLACED": [{ outcome: "succeeded", ...later }, "replaced"],
  "SANDBOX.CANCELED": [{ outcome: "failed", ...later }, "canceled"],
  "SANDBOX.EXPIRED": [{ outcome: "failed", ...later }, "expired"],
  "SANDBOX.REJECTED": [{ outcome: "failed", ...later }, "rejected"],
  "SANDBOX.OPEN": [{ outcome: "pending" }, "filled"],
  // A test symbol of Nasdaq: the adapter sends fences for the symbols of stocks alone.
  ZVZZT: [{ outcome: "pending" }, "filled"],
  "SANDBOX.FORBIDDEN": [{ outcome: "rejected" }, "rejected"]
}

/** An asset that the bank does not have. */
const noAsset = "SANDBOX.NONE"

const failures: Readonly<Record<string, Ending>> = { insufficient_funds: "canceled", account_closed: "rejected" }

const endingOf = ({ settlement: { failure, reference } }: KnownSubmission, { symbol }: Request): Ending => {
  if (failure?.code === "canceled") return "canceled"
  if (instructed[symbol] !== undefined) return instructed[symbol][1]
  if (failure !== null) return failures[failure.code] ?? "expired"
  const share = Number.parseInt(reference.at(-1)!, 16) % 8
  return share < 5 ? "filled" : share < 7 ? "partly" : "replaced"
}

/** Of an order that only the fault `foreign_answer` shows. */
const other: Request = {
  client_order_id: "other",
  symbol: "OTHER",
  qty: "1",
  side: "buy",
  type: "market",
  time_in_force: "day"
}

/** The bank's ids are UUIDs. The last digit is 1 for the order that replaced another one. */
const idOf = (reference: string, isReplacement: boolean): string =>
  reference.slice("sbx_".length).padEnd(30, "0").replace(
    /^(.{8})(.{4})(.{3})(.{3})(.{11}).$/u,
    `$1-$2-4$3-8$4-$5${isReplacement ? 1 : 0}`
  )

const referenceIn = (id: string): string =>
  `sbx_${/^(.{8})-(.{4})-4(.{3})-8(.{3})-/u.exec(id)?.slice(1).join("") ?? ""}${id.slice(24, 30)}`

const isOfReplacement = ({ path }: RequestHead): boolean => path.startsWith("/v2/orders/") && path.endsWith("1")

const decimal = new Intl.NumberFormat("en-US", { useGrouping: false, maximumFractionDigits: 9 })

const share = (quantity: number, part: number): string => decimal.format(quantity * part)

/** The state of an order, and the part of it that is filled. */
const stateOf = (
  known: KnownSubmission,
  ending: Ending,
  isReplacement: boolean
): readonly [status: string, part: number] => {
  const { at, settlement: { effective_at, outcome, settles_at }, status: { status } } = known
  const progress = settles_at === null || settles_at === effective_at
    ? 0
    : (at - effective_at) / (settles_at - effective_at)
  if (ending === "replaced" && (status !== "pending" || progress >= 0.5)) {
    return isReplacement ? status === "pending" ? ["new", 0] : ["filled", 1] : ["replaced", 0]
  }
  if (status === "pending") {
    if (progress >= 0.5 && outcome === "succeeded") return ["partially_filled", 0.5]
    return progress < 0.25 ? ["accepted", 0] : ["new", 0]
  }
  return ending === "partly"
    ? ["canceled", 0.5]
    : ending === "filled" || ending === "replaced"
    ? ["filled", 1]
    : [ending, 0]
}

const orderOf = (known: KnownSubmission, head: RequestHead) => {
  const request = isRequest(known.echo) ? known.echo : other
  const { reference, idempotency_key } = known.status
  const isReplacement = isOfReplacement(head)
  const [status, part] = stateOf(known, endingOf(known, request), isReplacement)
  const at = (...states: ReadonlyArray<string>) =>
    states.includes(status) && known.settledAt !== null ? formatTimestamp(known.settledAt) : null
  const price = request.limit_price ?? "100"
  return {
    id: idOf(reference, isReplacement),
    client_order_id: isReplacement ? `replacement-${reference}` : idempotency_key,
    created_at: formatTimestamp(known.acceptedAt),
    updated_at: formatTimestamp(known.settledAt ?? known.acceptedAt),
    submitted_at: formatTimestamp(known.acceptedAt),
    filled_at: at("filled"),
    expired_at: at("expired"),
    canceled_at: at("canceled"),
    failed_at: at("rejected"),
    replaced_at: status === "replaced" ? formatTimestamp(known.at) : null,
    replaced_by: status === "replaced" ? idOf(reference, true) : null,
    replaces: isReplacement ? idOf(reference, false) : null,
    asset_id: "b0b6dd9d-8b9b-48a9-ba46-b9d54906e415",
    symbol: request.symbol,
    asset_class: request.symbol.includes("/") ? "crypto" : "us_equity",
    notional: request.notional ?? null,
    qty: request.qty ?? null,
    filled_qty: part === 0 ? "0" : share(Number(request.qty ?? Number(request.notional) / Number(price)), part),
    filled_avg_price: part === 0 ? null : price,
    order_class: "",
    order_type: request.type,
    type: request.type,
    side: request.side,
    time_in_force: request.time_in_force,
    limit_price: request.limit_price ?? null,
    stop_price: request.stop_price ?? null,
    status,
    extended_hours: request.extended_hours ?? false,
    legs: null,
    trail_percent: request.trail_percent ?? null,
    trail_price: request.trail_price ?? null,
    hwm: null
  }
}

const problem = (status: number, code: number, message: string, more: object = {}, headers = {}): Answer =>
  jsonAnswer(status, { code, message, ...more }, headers)

const notFound = problem(404, 40410000, "order not found")

const write = (saying: Saying, head: RequestHead): Answer => {
  switch (saying._tag) {
    case "Taken":
      return saying.isFirst
        ? jsonAnswer(200, orderOf(saying.known, head))
        : problem(422, 40010001, "client_order_id must be unique")
    case "DuplicateKey":
    case "TooLate":
      return problem(422, 40010001, "client_order_id must be unique")
    case "Status":
      // A cancelled order is not shown: the bank cancels it later.
      if (head.method === "DELETE") return { status: 204, contentType: "application/json", text: "" }
      // The bank keeps no order that it refused when it came.
      return saying.known.settlement.outcome === "rejected" ? notFound : jsonAnswer(200, orderOf(saying.known, head))
    case "Refused":
      if (head.method === "DELETE") return problem(422, 42210000, "order is not cancelable")
      return saying.failure.code === "insufficient_funds"
        ? problem(403, 40310000, "insufficient buying power", { buying_power: "0", cost_basis: "100" })
        : problem(403, 40310000, saying.failure.message)
    case "NotFound":
      return notFound
    case "Invalid":
      return problem(422, saying.reason.includes(noAsset) ? 42210000 : 40010001, saying.reason)
    case "BodyTooLarge":
      return problem(400, 40010000, "request body format is invalid")
    case "Unauthorized":
      return problem(401, 40110000, "request is not authorized")
    case "TooManyRequests":
      return problem(429, 42910000, "rate limit exceeded", {}, { "retry-after": String(saying.retryAfterSeconds) })
  }
}

/** The account of every pair of keys. */
const account = { id: "e6fe16f3-64a4-4921-8928-cadf02f92f98", account_number: "PA3717PJAYWN", status: "ACTIVE" }

const isKey = Schema.is(SubmissionKey)

/** Answers only what the adapter needs: the account, an order, its state by its own or by the bank's id, and its cancellation. */
const demandOf = ({ headers, method, path, query }: RequestHead): Demand | null => {
  if (!path.startsWith("/v2/")) return null
  const isAuthorized = [headers["apca-api-key-id"], headers["apca-api-secret-key"]].every((key) =>
    typeof key === "string"
  )
  if (!isAuthorized) return answered(problem(401, 40110000, "request is not authorized"))
  if (path === "/v2/account" && method === "GET") return answered(jsonAnswer(200, account))
  if (path === "/v2/orders" && method === "POST") return { _tag: "Submit", key: null }
  const ofOrder = referenceIn(path.slice("/v2/orders/".length))
  if (path.startsWith("/v2/orders/") && method === "DELETE") return { _tag: "Cancel", reference: ofOrder }
  if (method !== "GET") return answered(problem(404, 40410000, "endpoint not found"))
  const key = query.get("client_order_id")
  if (path === "/v2/orders:by_client_order_id" && isKey(key)) return { _tag: "ReadByKey", key }
  return path.startsWith("/v2/orders/")
    ? { _tag: "ReadByReference", reference: ofOrder }
    : answered(problem(404, 40410000, "endpoint not found"))
}

/** No listed stock trades as low as this, so the order never finds a seller. Coins do, also by the old symbols of their pairs. */
const cannotFill = ({ limit_price, qty, side, symbol, time_in_force, type }: Request): boolean =>
  side === "buy" && type === "limit" && time_in_force === "gtc" && qty === "1" && limit_price === "0.0001"
  && !/\/|^[A-Z]{2,}(?:USD[TC]?|BTC)$/u.test(symbol)

/** Alpaca, by its documents. */
export const alpacaDialect: Dialect = {
  demandOf,
  submissionOf: (_, body) =>
    Result.flatMap(Result.mapError(decodeRequest(body), describeIssues), (echo) =>
      echo.symbol === noAsset
        ? Result.fail(`asset "${noAsset}" not found`)
        : Result.succeed({
          key: echo.client_order_id,
          type: "order",
          ...cannotFill(echo)
            ? { instruction: { outcome: "pending" as const }, isFence: true }
            : { instruction: instructed[echo.symbol]?.[0] },
          sendBefore: Infinity,
          echo
        })),
  isOpen: ({ echo, status }) => status.status === "pending" && isRequest(echo) && cannotFill(echo),
  write
}
