/**
 * Reads that are repeated until the gateway answers, and reads that wait for changes. The rules are those of
 * `client/ReadRules`.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClientError from "effect/http/HttpClientError"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import {
  attemptLimit,
  firstPace,
  isProxyFailure,
  nextPace,
  type Pace,
  pauseAfterFailure,
  pauseOfPoll
} from "../client/ReadRules.ts"
import { isRetryable } from "./ApiClient.ts"
import { withAdvice } from "./RetryAdvice.ts"

/** Whether there was no complete answer of the gateway: the connection failed or ended, or a proxy answered. */
const isLost = (error: unknown): boolean =>
  HttpClientError.isHttpClientError(error) && (
    error.reason._tag === "TransportError"
    // With a cause, the body could not be read. Without one, it is of another media type.
    || (error.reason._tag === "DecodeError" && error.reason.cause !== undefined)
    || (error.response !== undefined && isProxyFailure(error.response.status))
  )

/** A body that ends early leaves two errors in the cause: the status, and the failure to read the body. */
const mayRepeat = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => Cause.isFailReason(reason) && (isRetryable(reason.error) || isLost(reason.error)))

/** Repeats a read after retryable problems and lost connections until there is an answer. `wait` is in seconds. */
export const repeatRead = <A, E, R>(read: Effect.Effect<A, E, R>, wait: number): Effect.Effect<A, E, R> =>
  Effect.gen(function*() {
    for (let failures = 0;; failures++) {
      const pause = yield* withAdvice(read, (call, seconds) =>
        Effect.gen(function*() {
          const exit = yield* Effect.timeoutOption(Effect.exit(call), Duration.seconds(attemptLimit(wait)))
          if (Option.isSome(exit) && (Exit.isSuccess(exit.value) || !mayRepeat(exit.value.cause))) return exit.value
          return pauseAfterFailure(failures, seconds(), yield* Random.next)
        }))
      if (typeof pause !== "number") return yield* pause
      yield* Effect.sleep(Duration.seconds(pause))
    }
  })

/** What an answer means for the reads after it. */
export interface Step<State, Item> {
  readonly state: State
  /** What to emit. */
  readonly items: ReadonlyArray<Item>
  /** Whether the answer holds a change. */
  readonly isNew: boolean
  /** Whether the next read begins at once. */
  readonly hasMore: boolean
  readonly isLast: boolean
  /** `Preference-Applied` of the answer. */
  readonly applied: string | undefined
  /** Seconds between polls if the gateway does not wait. */
  readonly pollAfter: number
}

/** Reads again and again, and emits what is new. `wait` is in seconds. */
export const waitingReads = <State, Item, E, R>(
  wait: number,
  first: State,
  read: (state: State, prefer: { readonly prefer?: string }) => Effect.Effect<Step<State, Item>, E, R>
): Stream.Stream<Item, E, R> => {
  const prefer = wait > 0 ? { prefer: `wait=${wait}` } : {}
  const next = Effect.fnUntraced(function*(state: State, pace: Pace) {
    if (pace.pause > 0) yield* Effect.sleep(Duration.seconds(pauseOfPoll(pace.pause, yield* Random.next)))
    const begun = yield* Clock.currentTimeMillis
    const step = yield* repeatRead(read(state, prefer), wait)
    const took = ((yield* Clock.currentTimeMillis) - begun) / 1000
    const applied = /\bwait=\d/.test(step.applied ?? "")
    const after = nextPace(pace, { ...step, applied, took })
    return [step.items, step.isLast ? Option.none() : Option.some({ state: step.state, pace: after })] as const
  })
  return Stream.paginate({ state: first, pace: firstPace(wait) }, ({ pace, state }) => next(state, pace))
}
