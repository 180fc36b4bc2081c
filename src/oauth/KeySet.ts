/**
 * The keys of an authorization server (RFC 7517 §5), as they change: fetched when they are asked for, and never often.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import type { IssuerSettings } from "./Issuer.ts"
import { failureOf, ServerFailure } from "./JsonExchange.ts"
import { makeKeySource } from "./KeySource.ts"
import type { PublicKey } from "./PublicKey.ts"

/** Times in milliseconds. */
const minute = 60_000
/** How long keys are used without asking whether they have changed. */
const freshFor = 10 * minute
/** How long keys are used since they were fetched last, when they cannot be fetched again. */
const usableFor = 60 * minute
/** The least time from the start of one fetch to that of the next, whatever is asked for meanwhile. */
const pause = 30_000
/** The same after the first failure, as long as there was no success: it doubles until it is `pause`. */
const firstPause = 1_000
/**
 * How long anybody waits for a fetch, from its start: whoever asks has a place inside meanwhile, and too little time for
 * another answer than that there are no keys.
 */
const patience = 1_000

/** Finds keys by what the header of a signature says. */
export interface KeySet {
  /**
   * The key that verifies this. `InvalidCredential` when there is none, or more than one that it might be;
   * `AuthorizationUnavailable` when that cannot be said because the keys could not be fetched, or not within a second.
   */
  readonly find: (header: {
    readonly algorithm: string
    readonly kid: string | undefined
  }) => Effect.Effect<CryptoKey, InvalidCredential | AuthorizationUnavailable>
}

interface Flight {
  readonly startedAt: number
  readonly landed: Deferred.Deferred<void>
}

const tooSlow = new ServerFailure({ reason: "its keys did not come in time", status: null })

const monotonicMillis = Effect.map(
  Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos),
  (nanos) => Number(nanos / 1_000_000n)
)

/**
 * Keys are fresh for ten minutes. A key that is not among them starts a fetch, but there is at most one in 30 seconds
 * (before the first success after 1, 2, 4, 8 and 16), which all who ask share and which nobody's interruption ends. When
 * it fails, or takes more than a second, the keys of the last hour are used.
 */
export const makeKeySet = Effect.fnUntraced(function*(
  settings: Pick<IssuerSettings, "issuer" | "algorithms" | "jwksUri">
): Effect.fn.Return<KeySet, never, HttpClient.HttpClient> {
  const { issuer } = settings
  const client = yield* HttpClient.HttpClient
  const fetchKeys = Effect.provideService(makeKeySource(settings), HttpClient.HttpClient, client)

  let keys: ReadonlyArray<PublicKey> = []
  let fetchedAt = -Infinity
  let attemptedAt = -Infinity
  let failures = 0
  let failure: unknown
  let flight: Flight | null = null

  const select = (algorithm: string, kid: string | undefined): CryptoKey | undefined => {
    const candidates = keys.filter((key) => key.algorithm === algorithm && (kid === undefined || key.kid === kid))
    return candidates.length === 1 ? candidates[0]!.key : undefined
  }

  const pauseNow = () => fetchedAt > -Infinity ? pause : Math.min(pause, firstPause * 2 ** (failures - 1))

  const start = (startedAt: number) =>
    Effect.suspend(() => {
      const landed = Deferred.makeUnsafe<void>()
      flight = { startedAt, landed }
      attemptedAt = startedAt
      return fetchKeys.pipe(
        Effect.exit,
        Effect.flatMap((exit) => {
          if (Exit.isSuccess(exit)) {
            keys = exit.value
            fetchedAt = startedAt
            failures = 0
            return Effect.void
          }
          failures++
          failure = exit.cause.reasons.map((reason) => "error" in reason ? failureOf(issuer, reason.error) : reason)[0]
          return Effect.logWarning(`The keys of ${issuer} could not be fetched`, exit.cause)
        }),
        Effect.ensuring(Effect.sync(() => {
          flight = null
          Deferred.doneUnsafe(landed, Effect.void)
        })),
        Effect.forkDetach
      )
    })

  const fetchAtMostOnce = (now: number) =>
    Effect.suspend(() =>
      flight === null && now - attemptedAt >= pauseNow() ? Effect.uninterruptible(start(now)) : Effect.void
    ).pipe(
      Effect.andThen(Effect.suspend(() => {
        if (flight === null) return Effect.void
        const left = flight.startedAt + patience - now
        return left > 0 ? Effect.timeoutOption(Deferred.await(flight.landed), left) : Effect.void
      }))
    )

  const unavailable = Effect.suspend(() => {
    const cause = flight === null ? failure : failureOf(issuer, tooSlow)
    return Effect.fail(new AuthorizationUnavailable({ cause }))
  })

  return {
    find: Effect.fnUntraced(function*({ algorithm, kid }) {
      const now = yield* monotonicMillis
      const known = select(algorithm, kid)
      if (known !== undefined && now - fetchedAt < freshFor) return known
      yield* fetchAtMostOnce(now)
      if ((yield* monotonicMillis) - fetchedAt >= usableFor) return yield* unavailable
      const found = select(algorithm, kid)
      if (found !== undefined) return found
      // It may have been added since: who could not look cannot say that there is none.
      return yield* failures > 0 || flight !== null ? unavailable : Effect.fail(new InvalidCredential())
    })
  }
})
