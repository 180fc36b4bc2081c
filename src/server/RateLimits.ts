/**
 * Quotas of requests: of each client and subject, and of the credentials that are refused to an address.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type { GrantIdentity } from "../domain/Grant.ts"
import { clientAddress } from "./ClientAddress.ts"
import { Generations, layerStoreBounded, maxKeys } from "./RateLimitStore.ts"
import type { RateLimitFields } from "./RequestContext.ts"

/** So many requests in each window, and `burst` of them at once after a pause. */
export interface Quota {
  readonly requests: number
  /** Whole seconds. */
  readonly window: number
  readonly burst: number
}

export interface RateLimitOptions {
  readonly quota: Quota
  /**
   * Proxies whose `X-Forwarded-For` is believed, as addresses or CIDR blocks; none unless told. Their own address is that
   * of no client.
   */
  readonly trustedProxies?: ReadonlyArray<string>
}

/** What a request took from a quota, if there was enough left. */
export interface Charge {
  /** Seconds until the quota holds enough for a request; null where it did, and the request may go on. */
  readonly retryAfter: number | null
  readonly fields: RateLimitFields
}

export interface RateLimitsShape {
  readonly quota: Quota
  /** Takes a request from the quota of its client and subject. */
  readonly take: (grant: GrantIdentity) => Effect.Effect<Charge>
  /** Gives back what a request that was answered with 304 took too much. */
  readonly giveBack: (grant: GrantIdentity) => Effect.Effect<Charge>
  /** Takes a refused credential from the quota of the address that sent it. */
  readonly takeRefusal: (request: HttpServerRequest) => Effect.Effect<Charge>
}

/** In tenths, so that sums are exact: of a request, and of one that ends in a 304. */
const cost = { request: 10, notModified: 1 }

/** Whole, as the fields have them. */
const secondsOf = (span: Duration.Duration): number => Math.max(1, Math.ceil(Duration.toSeconds(span)))

/**
 * The fields of one policy. `t` is the time until the quota is whole again or, where nothing is left, until the next
 * request: a client that spreads `r` requests over `t` seconds stays within the quota.
 */
const describePolicy = (name: string, { burst, requests, window }: Quota) => {
  const policy = `"${name}";q=${requests};w=${window};fingw-burst=${burst}`
  return (left: number, seconds: number): RateLimitFields => ({
    RateLimit: `"${name}";r=${Math.floor(left)};t=${seconds}`,
    RateLimitPolicy: policy
  })
}

/** Charges one quota of each key, in a store of its own: the keys of the one cannot push out those of the other. */
const makeBuckets = Effect.fnUntraced(function*(name: string, quota: Quota) {
  const limiter = yield* Effect.provide(RateLimiter.make, Layer.fresh(layerStoreBounded(maxKeys)))
  const quotaFields = describePolicy(name, quota)
  const policy = {
    algorithm: "token-bucket",
    onExceeded: "fail",
    limit: quota.burst * cost.request,
    // In which an empty bucket fills.
    window: Duration.seconds(quota.window * quota.burst / quota.requests)
  } as const
  const charge = (key: string, tokens: number): Effect.Effect<Charge> =>
    Effect.matchEffect(limiter.consume({ ...policy, key, tokens }), {
      onSuccess: ({ remaining, resetAfter }) =>
        Effect.succeed({ retryAfter: null, fields: quotaFields(remaining / cost.request, secondsOf(resetAfter)) }),
      onFailure: (error) => {
        if (error.reason._tag !== "RateLimitExceeded") return Effect.die(error)
        const retryAfter = secondsOf(error.reason.retryAfter)
        return Effect.succeed({ retryAfter, fields: quotaFields(0, retryAfter) })
      }
    })
  // To make such an effect takes as long as to run it.
  const takings = new Generations<Effect.Effect<Charge>>(maxKeys)
  return {
    take: (key: string) => takings.get(key, () => charge(key, cost.request)),
    giveBack: (key: string) => charge(key, cost.notModified - cost.request)
  }
})

const make = Effect.fnUntraced(function*({ quota, trustedProxies = [] }: RateLimitOptions) {
  const ofRequests = yield* makeBuckets("requests", quota)
  const ofRefusals = yield* makeBuckets("refusals", quota)
  const addressOf = clientAddress(trustedProxies)
  // Neither holds a space, so no two pairs read the same.
  const keyOf = ({ client_id, subject }: GrantIdentity) => `${client_id} ${subject}`
  return {
    quota,
    take: (grant: GrantIdentity) => ofRequests.take(keyOf(grant)),
    giveBack: (grant: GrantIdentity) => ofRequests.giveBack(keyOf(grant)),
    takeRefusal: (request: HttpServerRequest) => ofRefusals.take(addressOf(request))
  }
})

/** The quotas of requests; null where there are none. */
export const RateLimits: Context.Reference<RateLimitsShape | null> = Context.Reference(
  "financial-agents-gateway/server/RateLimits",
  { defaultValue: (): RateLimitsShape | null => null }
)

/**
 * Quotas that are counted in the memory of this process: several gateways beside each other allow as many times more. Dies
 * on trusted proxies that are no addresses.
 */
export const layerRateLimits = (options: RateLimitOptions): Layer.Layer<never> =>
  Layer.effect(RateLimits, make(options))
