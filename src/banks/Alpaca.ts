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
import type { ProviderOperation } from "../domain/Submission.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import {
  namesNothing,
  type ProvenResult,
  type ProviderAdapter,
  ProviderReference,
  StatusAnswer,
  SubmissionAnswer,
  submissionAnswerOf
} from "../submission/providers/ProviderAdapter.ts"
import { BoundedOrder, fenceOf, isUnfillable, Order, text } from "./AlpacaOrder.ts"

export { BoundedOrder, Order, orderTerms } from "./AlpacaOrder.ts"

/** What Alpaca can carry out, by type of operation. */
export const payloads = { order: Order, bounded_order: BoundedOrder }

/** In these states an order may be filled yet. `replaced`: by another order, or by a change of the stock. */
const open = [
  "new",
  "accepted",
  "pending_new",
  "accepted_for_bidding",
  "held",
  "partially_filled",
  "pending_cancel",
  "pending_replace",
  // A trade is guaranteed, and has not happened yet.
  "stopped",
  "suspended",
  // No more on this day. An order that is good for longer goes on at the next.
  "done_for_day",
  "calculated",
  "replaced"
] as const

/** The answer with an order. */
const Answered = Schema.Struct({
  id: ProviderReference,
  client_order_id: Schema.String,
  status: Schema.Literals([...open, "filled", "canceled", "expired", "rejected"]),
  filled_qty: text(/^[0-9]+(?:\.[0-9]+)?$/u, "a number as text"),
  replaced_by: Schema.optionalKey(Schema.NullOr(ProviderReference)),
  // By these the order of a fence is known.
  qty: Schema.optionalKey(Schema.NullOr(Schema.String)),
  side: Schema.optionalKey(Schema.String),
  type: Schema.optionalKey(Schema.String),
  time_in_force: Schema.optionalKey(Schema.String),
  limit_price: Schema.optionalKey(Schema.NullOr(Schema.String))
})
type Answered = typeof Answered.Type

const refusal = <Code extends number>(...codes: ReadonlyArray<Code>) => Schema.Struct({ code: Schema.Literals(codes) })
const NoBuyingPower = Schema.Struct({ code: Schema.Literals([40310000]), buying_power: Schema.String })

/** What clients read of an order that ended without a fill, by code. Alpaca's own words stay in the evidence. */
const failures = {
  insufficient_buying_power: { message: "The account does not have the buying power for this order." },
  order_not_permitted: { message: "The account may not place this order, for example because it lacks the shares." },
  order_invalid: { message: "The broker does not take an order of this kind for this symbol at this time." },
  order_canceled: { message: "The order was cancelled before anything was filled." },
  order_expired: { message: "The order expired before anything was filled." },
  order_rejected: { message: "The broker or the exchange rejected the order. Nothing was filled." }
}

const isFilled = ({ filled_qty, status }: Answered): boolean => status === "filled" || /[1-9]/u.test(filled_qty)

const resultOf = (order: Answered, wasFilled: boolean): ProvenResult => {
  if ((open as ReadonlyArray<string>).includes(order.status)) return { state: "submitted" }
  return wasFilled || isFilled(order) ? { state: "succeeded" } : { state: "failed", code: `order_${order.status}` }
}

const namesOf = ({ client_order_id, id }: Answered) => ({ reference: id, operation_id: client_order_id })

const refused = (schema: Schema.ConstraintDecoder<unknown>, code: keyof typeof failures) =>
  HttpProvider.onBody(
    schema,
    (_, answer) => SubmissionAnswer.Rejected({ code, names: namesNothing, evidence: HttpProvider.evidenceOf(answer) })
  )

const decodeSubmission = HttpProvider.byStatus({
  200: HttpProvider.onBody(
    Answered,
    (order, answer) =>
      submissionAnswerOf({
        ...resultOf(order, false),
        names: namesOf(order),
        evidence: HttpProvider.evidenceOf(answer)
      })
  ),
  401: HttpProvider.wrongCredentials,
  403: HttpProvider.firstOf(
    refused(NoBuyingPower, "insufficient_buying_power"),
    refused(refusal(40310000, 40310100), "order_not_permitted")
  ),
  // 40010001 is not declared: it stands for an invalid member, and for a `client_order_id` that was taken before. A status read decides.
  422: refused(refusal(42210000), "order_invalid"),
  // Beyond 200 requests in a minute.
  429: HttpProvider.refusedForNow
})

/** The orders that were replaced. The first is that of the operation. */
interface Earlier {
  readonly first: Answered
  readonly answers: ReadonlyArray<Schema.Json>
  readonly isFilled: boolean
}

/** Decodes an order, and those that replaced it, in turn. What was filled before a replacement counts. */
const decodeOrder = (earlier?: Earlier): HttpProvider.Decode<StatusAnswer | HttpProvider.ReadOn> =>
  HttpProvider.onBody(Answered, (order, answer) => {
    // Only if the ledger lost the record of a fence. If its order has ended unfilled, nothing was ordered.
    if (earlier === undefined && isUnfillable(order) && resultOf(order, false).state !== "failed") {
      return StatusAnswer.NotProven({ reason: "unclear", detail: `the order of a fence is ${order.status}` })
    }
    const first = earlier?.first ?? order
    const wasFilled = earlier?.isFilled === true
    const answers = [...earlier?.answers ?? [], HttpProvider.evidenceOf(answer)]
    const id = order.status === "replaced" ? order.replaced_by ?? null : null
    if (id === null) {
      const evidence = earlier === undefined ? HttpProvider.evidenceOf(answer) : answers
      return StatusAnswer.Proven({ ...resultOf(order, wasFilled), names: namesOf(first), evidence })
    }
    const next = decodeOrder({ first, answers, isFilled: wasFilled || isFilled(order) })
    // An answer about another order proves nothing.
    const decode = HttpProvider.onBody(Schema.Struct({ id: Schema.Literal(id) }), (_, replacement) => next(replacement))
    return new HttpProvider.ReadOn({
      path: `/v2/orders/${encodeURIComponent(id)}`,
      decode: HttpProvider.byStatus({ 200: decode, 401: HttpProvider.wrongCredentials })
    })
  })

/** An order of a fence that has ended keeps the id, also if Alpaca ended it. If anything of it is filled, the fence stays uncertain. */
const decodeFence = HttpProvider.byStatus({
  200: HttpProvider.onBody(Answered, (order, answer) => {
    const names = namesOf(order)
    if (!isUnfillable(order)) return HttpProvider.KeyHolder.First({ names })
    if (isFilled(order)) {
      return Effect.fail(new HttpProvider.NotUnderstood({ reason: `the order of the fence is ${order.status}` }))
    }
    return HttpProvider.KeyHolder.Own({
      names,
      evidence: HttpProvider.evidenceOf(answer),
      isCancelled: resultOf(order, false).state === "failed"
    })
  }),
  401: HttpProvider.wrongCredentials,
  // The `client_order_id` was taken before, or a member is invalid.
  422: HttpProvider.onBody(refusal(40010001), () => HttpProvider.KeyHolder.Unnamed()),
  429: HttpProvider.refusedForNow
})

const decodeStatus = HttpProvider.byStatus({
  200: decodeOrder(),
  401: HttpProvider.wrongCredentials,
  404: HttpProvider.onBody(
    refusal(40410000),
    (_, answer) => StatusAnswer.NotFound({ names: namesNothing, evidence: HttpProvider.evidenceOf(answer) })
  )
})

/** The addresses of real money and of play money. */
const hosts = { live: "api.alpaca.markets", paper: "paper-api.alpaca.markets" }

/** The pair of keys of an account. */
export interface KeyPair {
  readonly keyId: Redacted.Redacted<string>
  readonly secretKey: Redacted.Redacted<string>
}

/** Refuses keys that cannot be right at this address: the ids of paper accounts alone begin with `PK`. */
const checkPair = (baseUrl: string, pair: KeyPair): KeyPair => {
  HttpProvider.requireSecret("the secret key of Alpaca (APCA_API_SECRET_KEY)", pair.secretKey)
  const isPaper = Redacted.value(HttpProvider.requireSecret("the key id of Alpaca (APCA_API_KEY_ID)", pair.keyId))
    .startsWith("PK")
  const { hostname } = new URL(baseUrl)
  if (hostname === hosts.live && isPaper) {
    throw new TypeError(
      `the key of a paper account works at https://${hosts.paper} alone, and APCA_API_BASE_URL is ${hosts.live}`
    )
  }
  if (hostname === hosts.paper && !isPaper) {
    throw new TypeError(
      `https://${hosts.paper} takes the keys of paper accounts alone, and APCA_API_KEY_ID does not begin with PK`
    )
  }
  return pair
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
    const baseUrl = HttpProvider.requireAddress("the address of Alpaca (APCA_API_BASE_URL)", options.baseUrl)
    if (typeof keys !== "function") checkPair(baseUrl, keys)
    else if (fence) {
      throw new TypeError(
        "fence of Alpaca requires keys that are no function: a fence at another account than that of the request proves nothing"
      )
    }
    const { hostname } = new URL(baseUrl)
    if (fence && account === undefined) {
      throw new TypeError("fence of Alpaca requires account: its key is free at every other account")
    }
    return HttpProvider.layer({
      ...options,
      baseUrl,
      account: account === undefined ? hostname : `${hostname} ${account}`,
      payloads,
      failures,
      // It carries a request out however late it arrives, so "not found" is never final.
      promises: { keys: "for_ever", readByOperationId: "yes" },
      credentials: (operation) =>
        Effect.map(typeof keys === "function" ? keys(operation) : Effect.succeed(keys), (pair) => {
          const { keyId, secretKey } = checkPair(baseUrl, pair)
          return { "apca-api-key-id": keyId, "apca-api-secret-key": secretKey }
        }),
      credentialsOf: typeof keys === "function" ? "operation" : "gateway",
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

/** Whether the environment has a fence: the number of the account that the keys name turns it on. */
const fenceOn = (variable: string): Pick<AlpacaOptions, "account" | "fence"> => {
  const account = variable.trim()
  if (account === "") return {}
  // `true` and `off` are no accounts.
  if (/^(?=.*[0-9])[A-Z0-9]{6,32}$/u.test(account)) return { account, fence: true }
  throw new TypeError("APCA_FENCE_ACCOUNT must be empty, or the number of the account, such as PA3717PJAYWN")
}

/**
 * The adapter with this limit, and with its settings from the environment: APCA_API_BASE_URL, APCA_API_KEY_ID, APCA_API_SECRET_KEY, and
 * APCA_FENCE_ACCOUNT, the number of the account that the keys always name, which turns the fence on. Default: no fence, because no order
 * and no key shows its account.
 */
export const layer = Layer.unwrap(
  Effect.flatMap(
    Config.all({
      baseUrl: Config.String("APCA_API_BASE_URL"),
      keyId: Config.Redacted("APCA_API_KEY_ID"),
      secretKey: Config.Redacted("APCA_API_SECRET_KEY"),
      fenceAccount: Config.String("APCA_FENCE_ACCOUNT").pipe(Config.withDefault(""))
    }),
    ({ baseUrl, fenceAccount, ...keys }) => Effect.sync(() => at({ baseUrl, keys, limit, ...fenceOn(fenceAccount) }))
  )
)
