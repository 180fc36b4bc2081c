/**
 * Calls of typed clients under the engine of the client on `fetch` (`client/Engine`): in the time and with the random numbers of
 * Effect, and with their own errors.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { ConnectionError, type Uncertainty } from "../client/ClientErrors.ts"
import { type Following, type Limits, type Platform, type Prefer, repeat } from "../client/Engine.ts"
import { isProxyFailure, isRetryable, retryAfterSeconds } from "../client/ReadRules.ts"
import { isProblem, markUncertain } from "./Problems.ts"

export type { Prefer }

/** Whether there was no complete answer of the gateway: the connection failed or ended, or a proxy answered. */
export const isLost = (error: unknown): boolean =>
  HttpClientError.isHttpClientError(error) && (
    error.reason._tag === "TransportError"
    // With a cause, the body could not be read. Without one, it is of another media type.
    || (error.reason._tag === "DecodeError" && error.reason.cause !== undefined)
    || (error.response !== undefined && isProxyFailure(error.response.status))
  )

/** A body that ends early leaves two errors in the cause: the status, and the failure to read the body. */
const mayRepeat = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => Cause.isFailReason(reason) && (isRetryable(reason.error) || isLost(reason.error)))

/** Receives the seconds of `Retry-After` during a call; null if the caller does not need them. */
const RetryAfter = Context.Reference<{ seconds: number | null } | null>(
  "financial-agents-gateway/api/RepeatedCalls/RetryAfter",
  { defaultValue: () => null }
)

/** Notes `Retry-After` of each answer: typed clients decode the problem of an answer without its headers. */
export const noteRetryAfter = HttpClient.tap((response) =>
  Effect.map(RetryAfter, (noted) => {
    if (noted !== null) noted.seconds = retryAfterSeconds(response.headers["retry-after"])
  })
)

/** A failed call, in the form that the engine reads. */
class FailedCall {
  readonly cause: Cause.Cause<unknown>
  readonly retryable: boolean
  readonly retryAfter: number | null

  constructor(cause: Cause.Cause<unknown>, retryAfter: number | null) {
    this.cause = cause
    this.retryable = mayRepeat(cause)
    this.retryAfter = retryAfter
  }
}

/** For calls that record work. It marks problems. */
export const uncertainty: Uncertainty = {
  isRefusal: (failure) =>
    failure instanceof FailedCall
    && failure.cause.reasons.every((reason) =>
      Cause.isFailReason(reason) && isProblem(reason.error) && reason.error.status < 500
    ),
  mark: (failure) =>
    failure instanceof FailedCall
      ? new FailedCall(
        Cause.map(failure.cause, (error) => isProblem(error) ? markUncertain(error) : error),
        failure.retryAfter
      )
      : failure
}

/** Runs a call as an attempt of the engine. */
type RunCall<E, R> = <A>(call: Effect.Effect<A, E, R>, signal: AbortSignal) => Promise<A>

const runIn = <E, R>(context: Context.Context<R>): RunCall<E, R> => async (call, signal) => {
  const noted: { seconds: number | null } = { seconds: null }
  const noting = Effect.provideService(call, RetryAfter, noted)
  const exit = await Effect.runPromiseExitWith(context)(noting, { signal })
  if (Exit.isSuccess(exit)) return exit.value
  throw new FailedCall(exit.cause, noted.seconds)
}

const platformIn = (context: Context.Context<never>): Platform => {
  const clock = Context.get(context, Clock.Clock)
  const random = Context.get(context, Random.Random)
  return {
    now: () => Number(clock.monotonicTimeNanosUnsafe()) / 1e9,
    sleep: (seconds, signal) => Effect.runPromiseWith(context)(Effect.sleep(Duration.seconds(seconds)), { signal }),
    random: () => random.nextDoubleUnsafe()
  }
}

/** The failure of a call. The engine ran calls of this error type alone, so anything else is a defect. */
const causeOf = <E>(failure: unknown): Cause.Cause<E> =>
  failure instanceof FailedCall ? failure.cause as Cause.Cause<E> : Cause.die(failure)

/**
 * Repeats a call after retryable problems and lost connections, within limits. Then it fails as the last attempt did, or with `late` if
 * the last attempt got no answer in time. `call` gets the header that asks for the wait.
 */
export const repeated = <A, E, R, Late = never>(
  call: (prefer: Prefer) => Effect.Effect<A, E, R>,
  limits: Limits,
  late?: () => Late
): Effect.Effect<A, E | Late, R> =>
  Effect.contextWith((context: Context.Context<R>) => {
    const run = runIn<E, R>(context)
    return Effect.tryPromise({
      try: (signal) => repeat((prefer, inner) => run(call(prefer), inner), limits, signal, platformIn(context)),
      catch: (failure) => failure
    }).pipe(Effect.catch((failure): Effect.Effect<never, E | Late> =>
      late !== undefined && failure instanceof ConnectionError
        ? Effect.fail(late())
        : Effect.failCause(causeOf<E>(failure))
    ))
  })

/** What the engine follows by calls, as a stream. Each run of the stream begins anew. */
export const followed = <A, E, R>(
  wait: number,
  iterate: (following: Following, run: RunCall<E, R>) => AsyncIterable<A>
): Stream.Stream<A, E, R> =>
  Stream.unwrap(Effect.contextWith((context: Context.Context<R>) =>
    Effect.sync(() =>
      Stream.fromAsyncIterable(
        iterate({ wait, platform: platformIn(context) }, runIn<E, R>(context)),
        (failure) => failure
      ).pipe(Stream.catch((failure) => Stream.failCause(causeOf<E>(failure))))
    )
  ))
