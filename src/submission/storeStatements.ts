/** Statements of the workers: each has a time limit, and some repeat until their scope closes. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { type ClockReading, elapsed, readClocks } from "./elapsed.ts"
import { logFailure } from "./submissionLog.ts"
import { SubmissionPolicy } from "./SubmissionPolicy.ts"

/**
 * Runs a statement with a time limit, also where the caller itself must not be interrupted. After `StoreUnavailable`,
 * the effect of the statement is not known.
 */
export const withinStore = <A, E, R>(
  statement: Effect.Effect<A, E, R>,
  limit: "storeTimeout" | "prepareTimeout" = "storeTimeout"
): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.flatMap(SubmissionPolicy, (policy) =>
    Effect.timeoutOrElse(Effect.interruptible(statement), {
      duration: policy[limit],
      orElse: () => Effect.fail(new StoreUnavailable({ cause: new Error("no answer in time") }))
    }))

/** Pauses while the store is unavailable: from 100 ms, doubling, up to two seconds. */
const retrySchedule = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

/** Repeats a statement while the store is unavailable, for about half an hour. `mayRepeat` ends that earlier. */
export const whileUnavailable = <A, E extends { readonly _tag: string }, R>(
  statement: Effect.Effect<A, E | StoreUnavailable, R>,
  mayRepeat: Effect.Effect<boolean>
): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.retry(statement, {
    while: (error) => error._tag === "StoreUnavailable" ? mayRepeat : Effect.succeed(false),
    schedule: retrySchedule,
    times: 900
  })

interface RepeatedStatement {
  readonly statement: Effect.Effect<void, StoreUnavailable>
  readonly failure: string
  readonly interval: Duration.Duration
  /** Ends the pause before the interval does. Default: nothing. */
  readonly again?: Effect.Effect<void>
  /** How long the statement may take. Default: `storeTimeout`. */
  readonly limit?: "storeTimeout" | "prepareTimeout"
}

/** Milliseconds in which only the first failure of a repeated statement is logged. */
const quiet = 60_000

/** Runs a statement on which no work depends until the scope closes, the first time at once. A stop does not wait for it. */
export const repeatStatement = (
  { again = Effect.never, failure, interval, limit, statement }: RepeatedStatement
): Effect.Effect<void, never, Scope.Scope> => {
  let loggedAt: ClockReading | null = null
  const attempt = Effect.catchCause(withinStore(statement, limit), (cause) =>
    Effect.gen(function*() {
      if (loggedAt !== null && (yield* elapsed(loggedAt)) < quiet) return
      loggedAt = yield* readClocks
      yield* logFailure(failure, cause)
    }))
  const detached = Effect.flatMap(Effect.forkDetach(attempt), Fiber.await)
  const pause = Effect.raceFirst(Effect.sleep(interval), again)
  // Spans of an endless loop would only fill a collector.
  const loop = Effect.withTracerEnabled(Effect.forever(Effect.andThen(detached, pause)), false)
  return Effect.asVoid(Effect.forkScoped(loop))
}
