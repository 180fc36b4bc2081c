/**
 * The quotas of requests: charges them, and refuses requests whose quota is used up.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { TooManyRequests } from "../../api/Problems.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import type { HttpMetrics } from "../../metrics/HttpMetrics.ts"
import type { Problems } from "./ProblemResponses.ts"
import type { Charge, RateLimitsShape } from "./RateLimits.ts"
import { CurrentRequest } from "./RequestContext.ts"

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
