/**
 * Quotas: of requests for each client and subject, and of refused credentials for each address.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { clientAddress } from "./ClientAddress.ts"
import { Generations, layerStoreBounded, maxKeys } from "./RateLimitStore.ts"
import type { RateLimitFields } from "./RequestContext.ts"

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

/** The result of charging a request to a quota. */
export interface Charge {
  /** Seconds until the quota allows a request; null if it allows this one. */
  readonly retryAfter: number | null
  readonly fields: RateLimitFields
}

/** Charges requests to quotas. Implement it to share quotas among processes. */
export interface RateLimitsShape {
  readonly quota: Quota
  /** Takes a request from the quota of its client and subject. */
  readonly take: (grant: GrantIdentity) => Effect.Effect<Charge>
  /** Gives back the difference between the cost of a request and that of one answered with 304. */
  readonly giveBack: (grant: GrantIdentity) => Effect.Effect<Charge>
  /** Takes a refused credential from the quota of the address that sent it. */
  readonly takeRefusal: (request: HttpServerRequest) => Effect.Effect<Charge>
}

/** Cost of a request, and of one that ends in a 304. In tenths of a request, so that sums are exact. */
const cost = { request: 10, notModified: 1 }

/** Whole seconds, as the header fields require. */
const secondsOf = (span: Duration.Duration): number => Math.max(1, Math.ceil(Duration.toSeconds(span)))

/**
 * The header fields of one policy. `t` is the time until the quota is full again. If nothing is left, `t` is the time
 * until the next request. A client that spreads `r` requests over `t` seconds stays within the quota.
 */
const policyFields = (name: string, { burst, requests, window }: Quota) => {
  const policy = `"${name}";q=${requests};w=${window};fingw-burst=${burst}`
  return (left: number, seconds: number): RateLimitFields => ({
    RateLimit: `"${name}";r=${Math.floor(left)};t=${seconds}`,
    RateLimitPolicy: policy
  })
}

/** Charges one quota to each key. Each quota has a store of its own, so its keys cannot push out those of the other. */
const makeBuckets = Effect.fnUntraced(function*(name: string, quota: Quota) {
  const limiter = yield* Effect.provide(RateLimiter.make, Layer.fresh(layerStoreBounded(maxKeys)))
  const quotaFields = policyFields(name, quota)
  const policy = {
    algorithm: "token-bucket",
    onExceeded: "fail",
    limit: quota.burst * cost.request,
    // The time in which an empty bucket fills.
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
  // Cached, because creating such an effect takes as long as running it.
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
  // Neither contains a space, so no two pairs have the same key.
  const keyOf = ({ client_id, subject }: GrantIdentity) => `${client_id} ${subject}`
  return {
    quota,
    take: (grant: GrantIdentity) => ofRequests.take(keyOf(grant)),
    giveBack: (grant: GrantIdentity) => ofRequests.giveBack(keyOf(grant)),
    takeRefusal: (request: HttpServerRequest) => ofRefusals.take(addressOf(request))
  }
})

/** The quotas; null if there are none. */
export const RateLimits: Context.Reference<RateLimitsShape | null> = Context.Reference(
  "financial-agents-gateway/server/gate/RateLimits",
  { defaultValue: (): RateLimitsShape | null => null }
)

/**
 * Quotas in the memory of this process: n gateways together allow n times as many requests. Dies on trusted proxies
 * that are no addresses.
 */
export const layerRateLimits = (options: RateLimitOptions): Layer.Layer<never> =>
  Layer.effect(RateLimits, make(options))
