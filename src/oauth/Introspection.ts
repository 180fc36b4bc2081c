/** Verifies tokens by introspection at their authorization server (RFC 7662). */
import * as Clock from "effect/Clock"
import * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Redacted from "effect/Redacted"
import * as Semaphore from "effect/Semaphore"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { exchangeJson, type JsonObject, ServerFailure, timedOut, withIssuer } from "../http/JsonExchange.ts"
import { RedactedBody } from "../http/OutgoingRequest.ts"
import { discover, makeCachedDocument, monotonicMillis } from "./CachedDocument.ts"
import { makeCallLimit } from "./CallLimit.ts"
import {
  type AuthenticateClient,
  type AuthorizationMisconfigured,
  type ClientAuthentication,
  makeClientAuthentication
} from "./ClientAuthentication.ts"
import { makeLimiter, makeRequestDeduplication, tooMany } from "./IntrospectionLimiter.ts"
import { validateEndpoint, validateIssuerSettings } from "./Issuer.ts"
import { longestTimeToLive, makeTokenCache, type VerifyToken } from "./TokenCache.ts"
import { type ClaimRules, readClaims, type VerifiedToken } from "./TokenClaims.ts"

/** Settings of the introspection at one issuer. */
export interface IntrospectionSettings extends ClaimRules {
  /** URL of the endpoint. Null: the metadata of the issuer names it. */
  readonly endpoint: string | null
  readonly client: ClientAuthentication
  /** Limit for one request; waiting for a permit counts. */
  readonly timeout: Duration.Duration
  /**
   * How long an answer is cached, at most 60 seconds. A token that is revoked at the authorization server stays valid for
   * this time, unless the gateway's own grant is revoked too.
   */
  readonly answerTimeToLive: Duration.Duration
}

/**
 * Returns what is invalid in the settings, as one sentence for the operator; null if they are valid.
 * `makeIntrospectionVerifier` checks the client authentication.
 */
export const validateIntrospectionSettings = (settings: IntrospectionSettings): string | null => {
  const { answerTimeToLive, endpoint, issuer, timeout } = settings
  const invalid = validateIssuerSettings({ ...settings, algorithms: ["ES256"], jwksUri: null })
  if (invalid !== null) return invalid
  const invalidEndpoint = endpoint === null ? null : validateEndpoint(issuer, endpoint)
  if (invalidEndpoint !== null) {
    return `The introspection endpoint of ${issuer} at ${JSON.stringify(endpoint)} ${invalidEndpoint}.`
  }
  const millis = Duration.toMillis(timeout)
  if (!(millis >= 100 && millis <= 30_000)) return "Introspection may take between 100 milliseconds and 30 seconds."
  return Duration.isGreaterThan(answerTimeToLive, longestTimeToLive)
    ? "Answers of introspection may be kept for 60 seconds at most."
    : null
}

/** Most characters of a token. The gateway refuses a longer one without introspection. */
const maxTokenLength = 8192

const answerSize = 64 * 1024

/** The characters that a token may have (RFC 6750 §2.1). */
const tokenPattern = /^[A-Za-z0-9\-._~+/]+=*$/

const encoder = new TextEncoder()

/** Statuses after which the endpoint may have moved. Null: no response. */
const statusesOfMovedEndpoint: ReadonlySet<number | null> = new Set([404, 410, null])

const concurrency = 64

/** Most concurrent requests about unknown tokens. The remaining permits stay free for known tokens. */
const unknownConcurrency = 32

/**
 * For each permit, this many introspection requests may be under way, and this many requests to the gateway may wait for their
 * answers. Both are counted, because several requests share an introspection request, which continues when they have gone.
 */
const queueFactor = 8

/** Most requests with one token that wait at once. They share introspection requests, and would take the places of other tokens. */
const maxOfToken = 128

/** Whether `token_type`, if present, agrees with the confirmation of the token (RFC 9449 §6.2). */
const isConsistent = ({ token_type }: JsonObject, { confirmation: { jkt } }: VerifiedToken): boolean =>
  token_type === undefined
  || typeof token_type === "string" && token_type.toLowerCase() === (jkt === null ? "bearer" : "dpop")

/** Values of `typ`, in Keycloak and other servers, of tokens that are not for resource servers. */
const otherTypes = /^(?:refresh|offline|id)(?:[_+-].*)?$/i

/**
 * Whether the answer is about an access token. Servers introspect all their tokens, and some name the kind in `token_use`
 * (Ory Hydra) or `typ`. A refresh token with any audience is for the authorization server alone (RFC 6749 §1.5).
 */
const isAccessToken = ({ token_use, typ }: JsonObject): boolean =>
  (token_use === undefined || token_use === "access_token") && !(typeof typ === "string" && otherTypes.test(typ))

/** Reads an answer. Null unless `active` is `true` and the token is an access token with valid claims. */
const readAnswer = (
  answer: JsonObject,
  rules: ClaimRules,
  resource: string | null,
  now: number
): VerifiedToken | null => {
  const isActiveAccessToken = answer["active"] === true && isAccessToken(answer)
  const token = isActiveAccessToken ? readClaims(answer, "introspection", rules, resource, now) : null
  return token !== null && isConsistent(answer, token) ? token : null
}

/** Introspects one token. Fails unless the answer says whether the token is active. */
const makeExchange = (
  { timeout }: IntrospectionSettings,
  authenticateClient: AuthenticateClient,
  client: HttpClient.HttpClient,
  { locate }: IntrospectionEndpoint
) =>
  Effect.fnUntraced(function*(token: Redacted.Redacted<string>, sent: Effect.Effect<void>) {
    const endpoint = yield* locate
    const { fields, headers } = yield* authenticateClient
    const request = HttpClientRequest.post(endpoint, {
      headers,
      body: RedactedBody.form({ token: Redacted.value(token), token_type_hint: "access_token", ...fields })
    })
    yield* sent
    const answer = yield* Effect.mapError(
      exchangeJson(client, request, { timeout, size: answerSize }),
      (failure) => failure.status === 401 ? clientRefused : failure
    )
    if (typeof answer["active"] === "boolean") return answer
    return yield* new ServerFailure({ reason: "the answer does not say whether the token is active", status: 200 })
  })

/** A 401 refuses the gateway's client authentication, and says nothing about the token. */
const clientRefused = new ServerFailure({
  reason: "status 401 for the gateway's own client authentication: check its client id, and its secret or key",
  status: 401
})

/** The probe of the circuits: introspects the token that was verified last. If there is none, fetches the metadata. */
const makeProbe = (known: KnownTokens, introspect: ReturnType<typeof makeExchange>, endpoint: IntrospectionEndpoint) =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const latest = known.latest(now)
    if (latest === null) return endpoint.probe
    return Effect.tap(
      introspect(latest.token, Effect.void),
      ({ active }) => Effect.sync(() => active === true ? undefined : known.forget(latest.digest))
    )
  })

/**
 * Introspects tokens in two limiters: one for recently active tokens, and one for all others. An attacker with invented tokens
 * uses only the second limiter, which cannot affect the first.
 */
const makeIntrospect = Effect.fnUntraced(
  function*(settings: IntrospectionSettings, known: KnownTokens, authenticateClient: AuthenticateClient) {
    const { issuer, timeout } = settings
    const breaker = yield* CircuitBreaker.CircuitBreaker
    const client = yield* HttpClient.HttpClient
    const endpoint = makeIntrospectionEndpoint(settings, client)
    const introspect = makeExchange(settings, authenticateClient, client, endpoint)
    const probe = makeProbe(known, introspect, endpoint)
    const all = yield* Semaphore.make(concurrency)
    const limiterOf = (kind: string, permits: number, limits: ReadonlyArray<Semaphore.Semaphore>) => {
      const name = `introspection of ${kind} tokens at ${issuer}`
      const max = permits * queueFactor
      return {
        wait: makeCallLimit({ max, maxOfKey: maxOfToken }, tooMany),
        send: makeLimiter({ name, breaker, limits, maxRequests: max, timeout, probe })
      }
    }
    const ofKnown = limiterOf("known", concurrency, [all])
    const ofUnknown = limiterOf("unknown", unknownConcurrency, [yield* Semaphore.make(unknownConcurrency), all])
    const limiter = (digest: string) => known.has(digest) ? ofKnown : ofUnknown
    const deduplicate = makeRequestDeduplication<JsonObject, ServerFailure>(Duration.times(timeout, 1 / 4))

    return (digest: string, token: Redacted.Redacted<string>) => {
      const answer = deduplicate(digest, (sent) => limiter(digest).send(introspect(token, sent))).pipe(
        Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut) }),
        Effect.tapError(({ status }) => statusesOfMovedEndpoint.has(status) ? endpoint.rediscover : Effect.void)
      )
      return Effect.mapError(
        limiter(digest).wait(digest, answer),
        (failure) => new AuthorizationUnavailable({ cause: withIssuer(issuer, failure) })
      )
    }
  }
)

/**
 * Makes a verifier that introspects each token, authenticated as a client of the authorization server. It yields the
 * confirmation of a sender-constrained token without checking it: `makeConfirm` does. The settings must be valid
 * (`validateIntrospectionSettings`). Fails if the client authentication is misconfigured.
 *
 * The verifier fails with `InvalidCredential` if the token is not active, no access token, for another audience, or lacks
 * a claim. It fails with `AuthorizationUnavailable` if there is no usable answer, if the server refuses to answer, or if the
 * request was not sent (`IntrospectionLimiter`).
 */
export const makeIntrospectionVerifier = Effect.fnUntraced(function*(
  settings: IntrospectionSettings
): Effect.fn.Return<
  VerifyToken,
  AuthorizationMisconfigured,
  HttpClient.HttpClient | Digest.Digest | SecureRandom.SecureRandom | CircuitBreaker.CircuitBreaker
> {
  const digests = yield* Digest.Digest
  const known = makeKnownTokens()
  const introspect = yield* makeIntrospect(
    settings,
    known,
    yield* makeClientAuthentication(settings.client, settings.issuer)
  )
  const verify: VerifyToken = Effect.fnUntraced(function*(redacted, resource) {
    const token = Redacted.value(redacted)
    if (token.length > maxTokenLength || !tokenPattern.test(token)) return yield* new InvalidCredential()
    const digest = yield* digests.digestHex(Digest.sha256, encoder.encode(token))
    const answer = yield* introspect(digest, redacted)
    const now = yield* Clock.currentTimeMillis
    const verified = readAnswer(answer, settings, resource, now / 1000)
    if (verified === null) {
      known.forget(digest)
      return yield* new InvalidCredential()
    }
    known.remember(digest, { token: redacted, expiresAt: verified.expires_at * 1000 }, now)
    return verified
  })
  return yield* makeTokenCache(verify, {
    timeToLive: settings.answerTimeToLive,
    clockTolerance: settings.clockTolerance
  })
})

/**
 * Finds the endpoint in the metadata, unless it is configured. Metadata is fetched again after ten minutes, and requests do
 * not wait for it. Metadata that cannot be read, is of another issuer or names no endpoint does not replace the last one.
 */
const makeIntrospectionEndpoint = (
  { endpoint, issuer }: Pick<IntrospectionSettings, "endpoint" | "issuer">,
  client: HttpClient.HttpClient
) => {
  if (endpoint !== null) return { locate: Effect.succeed(endpoint), rediscover: Effect.void, probe: null }
  const find = Effect.provideService(discover(issuer, "introspection_endpoint"), HttpClient.HttpClient, client)
  const endpointInUse = makeCachedDocument({ issuer, what: "metadata", fetch: find, retriesAtOnce: 2 })
  return {
    /** Yields the configured endpoint, or that of metadata which was fetched in the last hour. */
    locate: Effect.gen(function*() {
      const now = yield* monotonicMillis
      const known = endpointInUse.usable(now)
      if (known !== null) {
        return yield* Effect.as(endpointInUse.isFresh(now) ? Effect.void : endpointInUse.startFetch(now), known)
      }
      yield* endpointInUse.refresh(now)
      return endpointInUse.usable(yield* monotonicMillis) ?? (yield* endpointInUse.failure())
    }),
    /** Starts to fetch the metadata again in the background, because the endpoint may have moved. */
    rediscover: Effect.flatMap(monotonicMillis, endpointInUse.startFetch),
    /** A probe without a token. Null if the endpoint is configured: the server may have no metadata that the gateway can reach. */
    probe: find
  }
}

type IntrospectionEndpoint = ReturnType<typeof makeIntrospectionEndpoint>

const generationSize = 10_000

/** Length of a generation, in milliseconds. */
const generationLength = 30 * 60_000

interface RememberedToken {
  readonly token: Redacted.Redacted<string>
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

/**
 * The recently active tokens. Keeps two generations of digests, which are SHA-256 of tokens: 20,000 at most. A new generation starts after 30 minutes or 10,000 tokens, and the older
 * one is dropped. A token in use therefore stays known, and changes the sets once per generation.
 */
export const makeKnownTokens = () => {
  let current = new Set<string>()
  let previous = new Set<string>()
  let startedAt = -Infinity
  let latest: RememberedToken & { readonly digest: string } | null = null

  return {
    has: (digest: string): boolean => current.has(digest) || previous.has(digest),
    /** Adds a token that was verified at `now`. */
    remember: (digest: string, { expiresAt, token }: RememberedToken, now: number): void => {
      if (now - startedAt >= generationLength || current.size >= generationSize && !current.has(digest)) {
        previous = current
        current = new Set()
        startedAt = now
      }
      current.add(digest)
      latest = { digest, token, expiresAt }
    },
    /** Removes a token that is no longer active. */
    forget: (digest: string): void => {
      current.delete(digest)
      previous.delete(digest)
      if (latest?.digest === digest) latest = null
    },
    /** The token that was verified last; null once it expires or is removed. Only this token is kept as text. */
    latest: (now: number) => latest !== null && now < latest.expiresAt ? latest : null
  }
}

type KnownTokens = ReturnType<typeof makeKnownTokens>
