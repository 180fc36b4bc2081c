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

/** One attempt, and the pause before the next one. Without an exit, no answer came within `limit` seconds. */
const attempt = <A, E, R>(read: Effect.Effect<A, E, R>, limit: number, failures: number) =>
  withAdvice(read, (call, seconds) =>
    Effect.gen(function*() {
      const exit = Option.getOrNull(yield* Effect.timeoutOption(Effect.exit(call), Duration.seconds(limit)))
      if (exit !== null && (Exit.isSuccess(exit) || !mayRepeat(exit.cause))) return { exit, pause: null }
      const advised = seconds()
      return { exit, advised, pause: pauseAfterFailure(failures, advised, yield* Random.next) }
    }))

/** Repeats a read after retryable problems and lost connections until there is an answer. `wait` is in seconds. */
export const repeatRead = <A, E, R>(read: Effect.Effect<A, E, R>, wait: number): Effect.Effect<A, E, R> =>
  Effect.gen(function*() {
    for (let failures = 0;; failures++) {
      const { exit, pause } = yield* attempt(read, attemptLimit(wait), failures)
      if (pause === null) return yield* exit
      yield* Effect.sleep(Duration.seconds(pause))
    }
  })

/** The limits of a read whose caller waits for its result. All are in seconds. */
export interface BriefRead {
  /** How long the gateway may wait for a change. */
  readonly wait: number
  /** How long an answer may take beyond the wait. The read ends if it takes longer. */
  readonly answer: number
  /** How long all pauses between attempts may take. A pause that `Retry-After` makes longer ends the read. */
  readonly pauses: number
}

/**
 * Repeats a read like `repeatRead`, within limits. Then it fails like the last attempt, or with `TimeoutError` if no answer came.
 * Each attempt receives the whole seconds that are left of the wait.
 */
export const repeatBriefly = <A, E, R>(
  read: (wait: number) => Effect.Effect<A, E, R>,
  { answer, pauses, wait }: BriefRead
): Effect.Effect<A, E | Cause.TimeoutError, R> =>
  Effect.gen(function*() {
    const begun = yield* Clock.currentTimeMillis
    for (let failures = 0, left = pauses;; failures++) {
      const waited = ((yield* Clock.currentTimeMillis) - begun) / 1000
      const rest = Math.max(0, Math.ceil(wait - waited))
      const { advised = null, exit, pause } = yield* attempt(read(rest), rest + answer, failures)
      if (exit === null) return yield* new Cause.TimeoutError()
      if (pause === null || left <= 0 || (advised ?? 0) > left) return yield* exit
      // The last attempt uses up the time, so that a restart of the gateway that takes no longer goes unnoticed.
      const next = Math.min(pause, left)
      left -= next
      yield* Effect.sleep(Duration.seconds(next))
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
