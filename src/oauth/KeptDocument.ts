/**
 * Documents of an authorization server that are fetched when they are needed, never often, and kept while they cannot be
 * fetched again. A fetch that yields nothing usable must fail: only a success replaces a document.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { ServerFailure, withIssuer } from "../http/JsonExchange.ts"

/** Times in milliseconds. */
const minute = 60_000
/** How long a document is used without asking whether it has changed. */
const freshFor = 10 * minute
/** How long a document is used since it was fetched last, when it cannot be fetched again. */
const usableFor = 60 * minute
/** The least time from the start of one fetch to that of the next, whatever is asked for meanwhile. */
const pause = 30_000
/** The same after the first failure, as long as there was no success: it doubles until it is `pause`. */
const firstPause = 1_000
/** How long a request waits for a fetch, from its start: a request that waits has a place inside. */
const patience = 1_000

export interface KeptSettings<A> {
  readonly issuer: string
  /** In the plural, for the log. */
  readonly what: string
  readonly fetch: Effect.Effect<A, ServerFailure>
  /** How many failed fetches before the first success are repeated without a pause. Default: none. */
  readonly retriesAtOnce?: number
}

/** Times are of `monotonicMillis`. */
export interface KeptDocument<A> {
  /** The document, unless there is none that was fetched within the last hour. */
  readonly usable: (now: number) => A | null
  /** Whether the document was fetched within the last ten minutes. */
  readonly isFresh: (now: number) => boolean
  /** Whether the last fetch failed or is under way: the server may have a newer document then. */
  readonly isBehind: () => boolean
  /** Why there is no newer document, where `isBehind`. */
  readonly failure: () => ServerFailure
  /** Starts a fetch unless one is under way, or was begun less than 30 seconds ago. */
  readonly begin: (now: number) => Effect.Effect<void>
  /** Starts a fetch likewise, and waits for the one that is under way: until a second after its start. */
  readonly refresh: (now: number) => Effect.Effect<void>
}

interface Flight {
  readonly startedAt: number
  readonly landed: Deferred.Deferred<void>
}

/** A clock that is never set, in milliseconds. */
export const monotonicMillis = Effect.map(
  Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos),
  (nanos) => Number(nanos / 1_000_000n)
)

/**
 * Keeps what `fetch` yields. There is at most one fetch in 30 seconds (before the first success after 1, 2, 4, 8 and 16),
 * which all requests share and which the end of no request interrupts.
 */
export const makeKept = <A>({ fetch, issuer, retriesAtOnce = 0, what }: KeptSettings<A>): KeptDocument<A> => {
  let document: A | null = null
  let fetchedAt = -Infinity
  let attemptedAt = -Infinity
  let failures = 0
  let failure = new ServerFailure({ reason: `${issuer}: its ${what} were not fetched yet`, status: null })
  let flight: Flight | null = null

  const tooSlow = withIssuer(issuer, new ServerFailure({ reason: `its ${what} did not come in time`, status: null }))

  const pauseNow = () => {
    if (fetchedAt > -Infinity) return pause
    return failures <= retriesAtOnce ? 0 : Math.min(pause, firstPause * 2 ** (failures - retriesAtOnce - 1))
  }

  const record = (startedAt: number, exit: Exit.Exit<A, ServerFailure>) => {
    if (Exit.isSuccess(exit)) {
      document = exit.value
      fetchedAt = startedAt
      failures = 0
      return Effect.void
    }
    failures++
    const error = exit.cause.reasons.map((reason) => "error" in reason ? reason.error : undefined)[0]
    failure = withIssuer(issuer, error ?? new ServerFailure({ reason: `its ${what} could not be read`, status: null }))
    return Effect.logWarning(
      `The ${what} of ${issuer} could not be fetched; those of the last hour stay in use`,
      exit.cause
    )
  }

  const start = (startedAt: number) =>
    Effect.suspend(() => {
      const landed = Deferred.makeUnsafe<void>()
      flight = { startedAt, landed }
      attemptedAt = startedAt
      return fetch.pipe(
        Effect.exit,
        Effect.flatMap((exit) => record(startedAt, exit)),
        Effect.ensuring(Effect.sync(() => {
          flight = null
          Deferred.doneUnsafe(landed, Effect.void)
        })),
        Effect.forkDetach
      )
    })

  const begin = (now: number) =>
    Effect.suspend(() =>
      flight === null && now - attemptedAt >= pauseNow() ? Effect.uninterruptible(start(now)) : Effect.void
    )

  return {
    usable: (now) => now - fetchedAt < usableFor ? document : null,
    isFresh: (now) => now - fetchedAt < freshFor,
    isBehind: () => failures > 0 || flight !== null,
    failure: () => flight === null ? failure : tooSlow,
    begin,
    refresh: (now) =>
      Effect.andThen(
        begin(now),
        Effect.suspend(() => {
          if (flight === null) return Effect.void
          const left = flight.startedAt + patience - now
          return left > 0 ? Effect.timeoutOption(Deferred.await(flight.landed), left) : Effect.void
        })
      )
  }
}
