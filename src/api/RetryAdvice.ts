/**
 * `Retry-After` of the answer to a call. Typed clients decode the problem of an answer without its headers, so the HTTP client
 * notes the header beside it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { retryAfterSeconds } from "../client/ReadRules.ts"

/** Receives the seconds of `Retry-After` during a call; null if the caller does not need them. */
const Advice = Context.Reference<{ seconds: number | null } | null>("financial-agents-gateway/api/RetryAdvice", {
  defaultValue: () => null
})

/** Notes `Retry-After` of each answer. */
export const noteAdvice = HttpClient.tap((response) =>
  Effect.map(Advice, (advice) => {
    if (advice !== null) advice.seconds = retryAfterSeconds(response.headers["retry-after"])
  })
)

/** Runs a call, and continues with its exit and the seconds of `Retry-After`; null without the header. */
export const withAdvice = <A, E, R, B, E2, R2>(
  call: Effect.Effect<A, E, R>,
  next: (call: Effect.Effect<A, E, R>, seconds: () => number | null) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E2, R | R2> =>
  Effect.suspend(() => {
    const advice: { seconds: number | null } = { seconds: null }
    return next(Effect.provideService(call, Advice, advice), () => advice.seconds)
  })
