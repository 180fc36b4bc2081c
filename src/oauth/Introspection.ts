/**
 * Tokens that only their authorization server understands (RFC 7662).
 */
import * as Clock from "effect/Clock"
import * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Redacted from "effect/Redacted"
import * as Semaphore from "effect/Semaphore"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import type { JsonObject } from "../http/JsonBody.ts"
import { exchangeJson, ServerFailure, timedOut, withIssuer } from "../http/JsonExchange.ts"
import { type ClaimRules, readClaims } from "./Claims.ts"
import {
  type AuthenticateClient,
  type ClientAuthentication,
  type InvalidClientAuthentication,
  makeClientAuthentication
} from "./ClientAuthentication.ts"
import { type IntrospectionEndpoint, makeEndpoint } from "./IntrospectionEndpoint.ts"
import { makeLane } from "./IntrospectionLane.ts"
import { validateEndpoint, validateIssuerSettings } from "./Issuer.ts"
import { type KnownTokens, makeKnownTokens } from "./KnownTokens.ts"
import { makeSharing } from "./SharedQuestions.ts"
import { longestTimeToLive, makeTokenCache, type VerifyToken } from "./TokenCache.ts"
import type { VerifiedToken } from "./VerifiedToken.ts"

export interface IntrospectionSettings extends ClaimRules {
  /** Where to ask. Null where the metadata of the issuer says so. */
  readonly endpoint: string | null
  readonly client: ClientAuthentication
  /** For one question, the wait for its place included. Three seconds are usual. */
  readonly timeout: Duration.Duration
  /**
   * How long an answer may be used again, a minute at most. What is more than zero is how long a token lives on that was
   * revoked at the authorization server, unless the gateway's own grant is revoked too.
   */
  readonly answerTimeToLive: Duration.Duration
}

/** What is wrong with the settings, as one sentence; or null. Of the client, `makeIntrospection` will tell. */
export const validateIntrospectionSettings = (settings: IntrospectionSettings): string | null => {
  const { answerTimeToLive, endpoint, issuer, timeout } = settings
  const fault = validateIssuerSettings({ ...settings, algorithms: ["ES256"], jwksUri: null })
  if (fault !== null) return fault
  const wrong = endpoint === null ? null : validateEndpoint(issuer, endpoint)
  if (wrong !== null) return `The introspection endpoint of ${issuer} at ${JSON.stringify(endpoint)} ${wrong}.`
  const millis = Duration.toMillis(timeout)
  if (!(millis >= 100 && millis <= 30_000)) return "Introspection may take between 100 milliseconds and 30 seconds."
  return Duration.isGreaterThan(answerTimeToLive, longestTimeToLive)
    ? "Answers of introspection may be kept for 60 seconds at most."
    : null
}

/** Characters. A longer token is not asked for. */
const longestToken = 8192

/** Bytes of an answer. */
const answerSize = 64 * 1024

/** Characters of a token (RFC 6750 §2.1). */
const tokenPattern = /^[A-Za-z0-9\-._~+/]+=*$/

/** Shows nothing of itself to whoever logs requests. */
class SilentForm extends HttpBody.Uint8Array {
  override toJSON(): unknown {
    return { _id: "effect/HttpBody", _tag: "Uint8Array", body: "<redacted>" }
  }
}

const encoder = new TextEncoder()

const makeForm = (fields: Readonly<Record<string, string>>): SilentForm => {
  const bytes = encoder.encode(new URLSearchParams(fields).toString())
  return new SilentForm(bytes, "application/x-www-form-urlencoded", bytes.length)
}

/** With these, and with no answer at all, the endpoint may have moved. */
const absences: ReadonlySet<number | null> = new Set([404, 410, null])

/** How many questions about tokens are asked at once. */
const places = 64

/** How many of these may be about tokens that were not verified lately: the others always find a place. */
const placesForUnknown = 32

/** How many questions may be under way for each place, those that wait for it included. */
const queueFactor = 8

/** Whether the type of the token says what its binding says (RFC 9449 §6.2). Nothing need be said. */
const isConsistent = ({ token_type }: JsonObject, { confirmation: { jkt } }: VerifiedToken): boolean =>
  token_type === undefined
  || typeof token_type === "string" && token_type.toLowerCase() === (jkt === null ? "bearer" : "dpop")

/** What servers call the tokens that are none for resource servers, in `typ`: among them Keycloak. */
const otherTypes = /^(?:refresh|offline|id)(?:[_+-].*)?$/i

/**
 * Servers introspect all of their tokens, and some tell by members of their own which it is: `token_use` (Ory Hydra) or
 * `typ`. A refresh token is for the authorization server alone (RFC 6749 §1.5), whatever its audience.
 */
const isAccessToken = ({ token_use, typ }: JsonObject): boolean =>
  (token_use === undefined || token_use === "access_token") && !(typeof typ === "string" && otherTypes.test(typ))

/** Nothing but `true` makes a token good. */
const readAnswer = (answer: JsonObject, rules: ClaimRules, now: number): VerifiedToken | null => {
  const isGood = answer["active"] === true && isAccessToken(answer)
  const token = isGood ? readClaims(answer, "introspection", rules, now) : null
  return token !== null && isConsistent(answer, token) ? token : null
}

/** Sends one question about a token, and reads the answer: one that says whether it is active. */
const makeExchange = (
  { timeout }: IntrospectionSettings,
  prove: AuthenticateClient,
  client: HttpClient.HttpClient,
  { locate }: IntrospectionEndpoint
) =>
  Effect.fnUntraced(function*(token: Redacted.Redacted<string>, sent: Effect.Effect<void>) {
    const endpoint = yield* locate
    const { fields, headers } = yield* prove
    const request = HttpClientRequest.post(endpoint, {
      headers,
      body: makeForm({ token: Redacted.value(token), token_type_hint: "access_token", ...fields })
    })
    yield* sent
    const answer = yield* Effect.mapError(
      exchangeJson(client, request, { timeout, size: answerSize }),
      (failure) => failure.status === 401 ? clientRefused : failure
    )
    if (typeof answer["active"] === "boolean") return answer
    return yield* new ServerFailure({ reason: "the answer does not say whether the token is active", status: 200 })
  })

/** This is about the gateway, and says nothing of the token. */
const clientRefused = new ServerFailure({
  reason: "status 401 for the gateway's own client authentication: check its client id, and its secret or key",
  status: 401
})

/**
 * Asks for the answer to a token, in one of two lanes: one for tokens that were verified lately, and one for all others.
 * Strangers reach only the second, and nothing that happens there changes what happens in the first.
 */
const makeAsk = Effect.fnUntraced(
  function*(settings: IntrospectionSettings, known: KnownTokens, prove: AuthenticateClient) {
    const { issuer, timeout } = settings
    const breaker = yield* CircuitBreaker.CircuitBreaker
    const client = yield* HttpClient.HttpClient
    const endpoint = makeEndpoint(settings, client)
    const exchange = makeExchange(settings, prove, client, endpoint)

    const probe = Effect.map(Clock.currentTimeMillis, (now) => {
      const latest = known.latest(now)
      if (latest === null) return endpoint.probe
      return Effect.tap(
        exchange(latest.token, Effect.void),
        ({ active }) => Effect.sync(() => active === true ? undefined : known.forget(latest.digest))
      )
    })
    const all = yield* Semaphore.make(places)
    const knownLane = makeLane({
      name: `introspection of known tokens at ${issuer}`,
      breaker,
      places: [all],
      most: places * queueFactor,
      timeout,
      probe
    })
    const unknownLane = makeLane({
      name: `introspection of unknown tokens at ${issuer}`,
      breaker,
      places: [yield* Semaphore.make(placesForUnknown), all],
      most: placesForUnknown * queueFactor,
      timeout,
      probe
    })
    const share = makeSharing<JsonObject, ServerFailure>(Duration.times(timeout, 1 / 4))

    return (digest: string, token: Redacted.Redacted<string>) =>
      share(digest, (sent) => (known.has(digest) ? knownLane : unknownLane).ask(exchange(token, sent))).pipe(
        Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut) }),
        Effect.tapError(({ status }) => absences.has(status) ? endpoint.lookAgain : Effect.void),
        Effect.mapError((failure) => new AuthorizationUnavailable({ cause: withIssuer(issuer, failure) }))
      )
  }
)

/**
 * Makes a verifier that asks the authorization server for each token, authenticated as its client, for settings without
 * fault (`validateIntrospectionSettings`). It says whom a token is bound to, and does not check it: see `Confirmation`.
 *
 * `InvalidCredential` when the token is not active, no access token, not for us, or says too little;
 * `AuthorizationUnavailable` when there is no answer that can be understood, a refusal to answer included, or the question
 * was not asked (`IntrospectionLane`). Fails when the client cannot authenticate so.
 */
export const makeIntrospection = Effect.fnUntraced(function*(
  settings: IntrospectionSettings
): Effect.fn.Return<
  VerifyToken,
  InvalidClientAuthentication,
  HttpClient.HttpClient | Digest.Digest | SecureRandom.SecureRandom | CircuitBreaker.CircuitBreaker
> {
  const digests = yield* Digest.Digest
  const known = makeKnownTokens()
  const ask = yield* makeAsk(settings, known, yield* makeClientAuthentication(settings.client, settings.issuer))
  const verify: VerifyToken = Effect.fnUntraced(function*(redacted) {
    const token = Redacted.value(redacted)
    if (token.length > longestToken || !tokenPattern.test(token)) return yield* new InvalidCredential()
    const digest = yield* digests.digestHex(Digest.sha256, encoder.encode(token))
    const answer = yield* ask(digest, redacted)
    const now = yield* Clock.currentTimeMillis
    const verified = readAnswer(answer, settings, now / 1000)
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
