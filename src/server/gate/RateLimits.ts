/**
 * Quotas: of requests for each client and subject, and of refused credentials for each address. `makeQuotas` charges them, and refuses
 * requests whose quota is used up.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import type { TooManyRequests } from "../../api/Problems.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import type { HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { clientAddress } from "./ClientAddress.ts"
import type { Problems } from "./ProblemResponses.ts"
import { CurrentRequest, type RateLimitFields } from "./RequestContext.ts"

/** A number of requests in each window. After a pause, `burst` requests may come at once. */
export interface Quota {
  readonly requests: number
  /** Whole seconds. */
  readonly window: number
  readonly burst: number
}

/** Options of the quotas. */
export interface RateLimitOptions {
  readonly quota: Quota
  /**
   * Proxies whose `X-Forwarded-For` is trusted, as addresses or CIDR blocks; none by default. A proxy's own address
   * never counts as a client.
   */
  readonly trustedProxies?: ReadonlyArray<string>
}

interface Charge {
  /** Seconds until the quota allows a request; null if it allows this one. */
  readonly retryAfter: number | null
  readonly fields: RateLimitFields
}

/** Charges requests to quotas. Implement it to share quotas among processes. */
export interface RateLimitsShape {
  readonly quota: Quota
  /** The address of the client that sent a request, as `clientAddress` finds it. */
  readonly addressOf: (request: Pick<HttpServerRequest, "headers" | "remoteAddress">) => string
  /** Takes a request from the quota of its client and subject. */
  readonly take: (grant: GrantIdentity) => Effect.Effect<Charge>
  /** Gives back the difference between the cost of a request and that of one answered with 304. */
  readonly giveBack: (grant: GrantIdentity) => Effect.Effect<Charge>
  /** Takes a refused credential from the quota of the address that sent it. */
  readonly takeRefusal: (request: HttpServerRequest) => Effect.Effect<Charge>
}

/** Cost of a request, and of one that ends in a 304. In tenths of a request, so that sums are exact. */
const cost = { request: 10, notModified: 1 }

/** Keys in one generation. Two generations of buckets with keys of 500 characters take 40 MiB. */
const maxKeys = 16_384

/**
 * A bounded map. Recently used keys are in the younger generation. When that is full, it becomes the older generation,
 * and the previous older generation is dropped. A use costs one look-up as a rule. An entry is written once for each
 * key and generation, not for each request.
 */
export class Generations<Value> {
  readonly #maxKeys: number
  #younger = new Map<string, Value>()
  #older = new Map<string, Value>()

  /** Holds at most twice `maxKeys` keys. The `maxKeys` most recently used keys are never dropped. */
  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  get size(): number {
    return this.#younger.size + this.#older.size
  }

  get(key: string, make: () => Value): Value {
    const known = this.#younger.get(key)
    if (known !== undefined) return known
    const value = this.#older.get(key) ?? make()
    if (this.#younger.size >= this.#maxKeys) {
      this.#older = this.#younger
      this.#younger = new Map()
    }
    this.#younger.set(key, value)
    this.#older.delete(key)
    return value
  }
}

/**
 * Charges one quota to each key, in tenths of a request. A negative charge gives back, up to the burst. A dropped bucket counts as full, so
 * a client that uses more keys than the map holds gains nothing over using new keys.
 *
 * What is used is a whole number, in units of which a request has as many as its window has milliseconds: each millisecond gives back
 * `requests` units. The field `t` is the time until the quota is full again. If nothing is left, it is the time until the next request. A
 * client that spreads `r` requests over `t` seconds stays within the quota.
 */
const makeBuckets = (name: string, { burst, requests, window }: Quota) => {
  const request = window * 1000
  const all = burst * request
  const buckets = new Generations<{ used: number; at: number }>(maxKeys)
  const secondsOf = (units: number) => Math.max(1, Math.ceil(units / (requests * 1000)))
  const policy = `"${name}";q=${requests};w=${window};fingw-burst=${burst}`
  const fieldsOf = (left: number, seconds: number): RateLimitFields => ({
    RateLimit: `"${name}";r=${Math.floor(left / request)};t=${seconds}`,
    RateLimitPolicy: policy
  })
  return (key: string, tenths: number): Effect.Effect<Charge> =>
    Effect.clockWith((clock) => {
      const now = clock.currentTimeMillisUnsafe()
      const bucket = buckets.get(key, () => ({ used: 0, at: now }))
      // A clock that was set back refills nothing.
      const before = Math.max(0, bucket.used - Math.max(0, now - bucket.at) * requests)
      const after = before + tenths * request / 10
      bucket.at = now
      bucket.used = after > all ? before : after
      const retryAfter = after <= all ? null : secondsOf(after - all)
      const fields = retryAfter === null ? fieldsOf(all - after, secondsOf(after)) : fieldsOf(0, retryAfter)
      return Effect.succeed({ retryAfter, fields })
    })
}

/** The quotas; null if there are none. */
export const RateLimits: Context.Reference<RateLimitsShape | null> = Context.Reference(
  "financial-agents-gateway/server/gate/RateLimits",
  { defaultValue: (): RateLimitsShape | null => null }
)

/**
 * Quotas in the memory of this process: n gateways together allow n times as many requests. Dies on trusted proxies
 * that are no addresses.
 */
export const layerRateLimits = ({ quota, trustedProxies = [] }: RateLimitOptions): Layer.Layer<never> =>
  Layer.sync(RateLimits, () => {
    const chargeRequest = makeBuckets("requests", quota)
    const chargeRefusal = makeBuckets("refusals", quota)
    const addressOf = clientAddress(trustedProxies)
    // Neither contains a space, so no two pairs have the same key.
    const keyOf = ({ client_id, subject }: GrantIdentity) => `${client_id} ${subject}`
    return {
      quota,
      addressOf,
      take: (grant) => chargeRequest(keyOf(grant), cost.request),
      giveBack: (grant) => chargeRequest(keyOf(grant), cost.notModified - cost.request),
      takeRefusal: (request) => chargeRefusal(addressOf(request), cost.request)
    }
  })

type Responding<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>

/** Charges the quotas, and puts their state into the response. */
export const makeQuotas = (
  limits: RateLimitsShape,
  problems: Problems["Service"],
  metrics: HttpMetrics | null
) => {
  const { burst, requests, window } = limits.quota
  const quota = `${requests} in ${window === 1 ? "a second" : `${window} seconds`}, and ${burst} at once`

  /** Notes the state of the quota for the response, and continues with the charge. */
  const show = <A, E, R>(taken: Effect.Effect<Charge>, onCharge: (charge: Charge) => Effect.Effect<A, E, R>) =>
    Effect.flatMap(taken, (charge) =>
      Effect.withFiber<A, E, R>((fiber) => {
        const request = Context.get(fiber.context, CurrentRequest)
        if (request !== null) request.rateLimit = charge.fields
        return onCharge(charge)
      }))

  const refuse = (detail: string, retryAfter: number): Effect.Effect<never, TooManyRequests> => {
    metrics?.refuse("rate_limited")
    return problems.fail("rate_limited", { detail: `${detail}: ${quota}.`, retryAfter })
  }

  return {
    /** Runs the effect. Fails with a problem if the quota of the client and subject is used up. */
    request: <E, R>(
      grant: GrantIdentity,
      request: HttpServerRequest,
      httpEffect: Responding<E, R>
    ): Responding<E | TooManyRequests, R> =>
      show(limits.take(grant), ({ retryAfter }): Responding<E | TooManyRequests, R> => {
        if (retryAfter !== null) {
          return refuse("The client and subject have used up their quota of requests", retryAfter)
        }
        if (request.headers["if-none-match"] === undefined) return httpEffect
        return Effect.tap(
          httpEffect,
          ({ status }) => status === 304 ? show(limits.giveBack(grant), () => Effect.void) : Effect.void
        )
      }),
    /** The response shows this quota only when it is used up: an address may have several users. */
    refusal: (request: HttpServerRequest): Effect.Effect<void, TooManyRequests> =>
      Effect.flatMap(limits.takeRefusal(request), (charge) =>
        charge.retryAfter === null ? Effect.void : show(
          Effect.succeed(charge),
          () => refuse("The address has used up its quota of refused credentials", charge.retryAfter!)
        ))
  }
}
