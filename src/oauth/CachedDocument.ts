/**
 * Caches a document of an authorization server: its metadata or its key set. The document is fetched on demand, at a limited
 * rate, and stays in use for an hour while it cannot be fetched again. A fetch without a usable document must fail, because
 * only a success replaces the cached document. Reads the metadata (RFC 8414).
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import { exchangeJson, ServerFailure, withIssuer } from "../http/JsonExchange.ts"
import { makeCallLimit } from "./CallLimit.ts"
import { validateEndpoint } from "./Issuer.ts"

/** All times are in milliseconds. */
const minute = 60_000
/** How long a document is used without a new fetch. */
const freshFor = 10 * minute
/** How long after the last successful fetch a document is used, if it cannot be fetched again. */
const usableFor = 60 * minute
/** Least time between the starts of two fetches. */
const pause = 30_000
/** Before the first success: the pause after the first failure. It doubles up to `pause`. */
const firstPause = 1_000
/** How long a request waits for a fetch, from the start of the fetch. Waiting requests count towards the request limit. */
const maxWait = 1_000

/** Most requests that wait for a fetch: a quarter of those that may run (`Lifecycle`). Anyone can make up a token of an unknown key. */
const maxWaiting = 256

interface CachedDocumentSettings<A> {
  readonly issuer: string
  /** Name of the document for logs, in the plural. */
  readonly what: string
  readonly fetch: Effect.Effect<A, ServerFailure>
  /** How many failed fetches before the first success are repeated without a pause. Default: none. */
  readonly retriesAtOnce?: number
}

/** Runs one effect at a time, in the background. Calls of that time share the run, and their end does not interrupt it. */
export const makeSharedRun = () => {
  let running: Deferred.Deferred<void> | null = null
  return {
    /** Completes at the end of the run. Null: none is under way. */
    running: () => running,
    /** Starts the run, or joins the one under way. */
    start: (run: Effect.Effect<unknown, unknown>): Effect.Effect<Deferred.Deferred<void>> =>
      Effect.uninterruptible(Effect.suspend(() => {
        if (running !== null) return Effect.succeed(running)
        const ended = running = Deferred.makeUnsafe<void>()
        return Effect.exit(run).pipe(
          Effect.ensuring(Effect.sync(() => {
            running = null
            Deferred.doneUnsafe(ended, Effect.void)
          })),
          Effect.forkDetach,
          Effect.as(ended)
        )
      }))
  }
}

/** Milliseconds of the monotonic clock, which no clock adjustment changes. */
export const monotonicMillis = Effect.map(
  Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos),
  (nanos) => Number(nanos / 1_000_000n)
)

/** The pause after so many failed fetches without a success. */
const initialPause = (failures: number, retriesAtOnce: number): number =>
  failures <= retriesAtOnce ? 0 : Math.min(pause, firstPause * 2 ** (failures - retriesAtOnce - 1))

/**
 * Makes a cached document. At most one fetch starts in 30 seconds; before the first success, the pauses are 1, 2, 4, 8 and
 * 16 seconds, then 30. All requests share one fetch, and the end of a request does not interrupt it. `now` are values of `monotonicMillis`.
 */
export const makeCachedDocument = <A>(
  { fetch, issuer, retriesAtOnce = 0, what }: CachedDocumentSettings<A>
) => {
  let document: A | null = null
  let fetchedAt = -Infinity
  let attemptedAt = -Infinity
  let failures = 0
  let failure = new ServerFailure({ reason: `${issuer}: its ${what} were not fetched yet`, status: null })
  const { running, start } = makeSharedRun()
  const wait = makeCallLimit({ max: maxWaiting }, Effect.void)

  const timedOut = withIssuer(issuer, new ServerFailure({ reason: `its ${what} did not come in time`, status: null }))

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

  const startFetch = (now: number) =>
    Effect.uninterruptible(Effect.suspend(() => {
      const currentPause = document === null ? initialPause(failures, retriesAtOnce) : pause
      if (running() !== null || now - attemptedAt < currentPause) return Effect.void
      attemptedAt = now
      return Effect.asVoid(start(Effect.flatMap(Effect.exit(fetch), (exit) => record(now, exit))))
    }))

  return {
    /** The document; null if the last successful fetch is more than an hour ago. */
    usable: (now: number): A | null => now - fetchedAt < usableFor ? document : null,
    /** Whether the document was fetched within the last ten minutes. */
    isFresh: (now: number): boolean => now - fetchedAt < freshFor,
    /** Whether the last fetch failed or is still running. The server may then have a newer document. */
    isBehind: (): boolean => failures > 0 || running() !== null,
    /** Why there is no newer document, if `isBehind`. */
    failure: (): ServerFailure => running() === null ? failure : timedOut,
    /** Starts a fetch in the background, unless one is running or the pause since the last one is not over. */
    startFetch,
    /**
     * Starts a fetch like `startFetch`, and waits for the running fetch until one second after its start. It does not wait if 256
     * requests do.
     */
    refresh: (now: number) =>
      Effect.andThen(
        startFetch(now),
        Effect.suspend(() => {
          const ended = running()
          const left = attemptedAt + maxWait - now
          return ended !== null && left > 0
            ? wait(issuer, Effect.timeoutOption(Deferred.await(ended), left))
            : Effect.void
        })
      )
  }
}

/** The endpoints of the metadata that a resource server needs. */
const endpoints = { jwks_uri: "key set", introspection_endpoint: "introspection endpoint" }

/** Limits of a fetch of metadata or of a key set. */
export const documentLimits = { timeout: "3 seconds", size: 1024 * 1024 } as const

/** URL of the metadata: the well-known part stands between host and path (RFC 8414 §3). */
const metadataUrl = (issuer: string): string => {
  const { origin, pathname } = new URL(issuer)
  return `${origin}/.well-known/oauth-authorization-server${pathname.replace(/\/$/, "")}`
}

/** URL of the metadata of an OpenID provider: the well-known part comes last (OpenID Connect Discovery §4). */
const openIdMetadataUrl = (issuer: string): string => `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`

/**
 * Fetches the metadata of an issuer whose URL is valid, and yields the URL of one endpoint. Falls back to the URL of OpenID providers on
 * 404. Fails unless the metadata names that issuer exactly (RFC 8414 §3.3), because it could be that of another one.
 */
export const discover = Effect.fnUntraced(function*(issuer: string, name: keyof typeof endpoints) {
  const client = yield* HttpClient.HttpClient
  const get = (url: string) => exchangeJson(client, HttpClientRequest.get(url), documentLimits)
  const document = yield* Effect.catchIf(
    get(metadataUrl(issuer)),
    ({ status }) => status === 404,
    () => get(openIdMetadataUrl(issuer))
  )
  const fail = (reason: string) => Effect.fail(new ServerFailure({ reason, status: 200 }))
  if (document["issuer"] !== issuer) return yield* fail("its metadata is that of another issuer")
  const url = document[name]
  if (url === undefined) return yield* fail(`its metadata names no ${endpoints[name]}`)
  if (typeof url !== "string") return yield* fail(`the ${name} of its metadata is not a URL`)
  const invalid = validateEndpoint(issuer, url)
  return invalid === null ? url : yield* fail(`the ${name} of its metadata ${invalid}`)
})
