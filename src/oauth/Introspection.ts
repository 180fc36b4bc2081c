/**
 * Tokens that only their authorization server understands (RFC 7662).
 */
import * as Cache from "effect/Cache"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Redacted from "effect/Redacted"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { type ClaimRules, readClaims } from "./Claims.ts"
import {
  type ClientAuthentication,
  type ClientAuthenticationFault,
  makeClientProofs,
  type ProveClient
} from "./ClientAuthentication.ts"
import { discover } from "./Discovery.ts"
import { endpointFault, issuerFault } from "./Issuer.ts"
import { exchangeJson, failureOf, type JsonMembers, ServerFailure } from "./JsonExchange.ts"
import { longestTimeToLive, makeTokenCache, type VerifyToken } from "./TokenCache.ts"
import type { VerifiedToken } from "./VerifiedToken.ts"

export interface IntrospectionSettings extends ClaimRules {
  /** Where to ask. Null where the metadata of the issuer says so. */
  readonly endpoint: string | null
  readonly client: ClientAuthentication
  /** For one answer. Three seconds are usual. */
  readonly timeout: Duration.Duration
  /**
   * How long an answer may be used again, a minute at most. What is more than zero is how long a token lives on that was
   * revoked at the authorization server, unless the gateway's own grant is revoked too.
   */
  readonly answerTimeToLive: Duration.Duration
}

/** What is wrong with the settings, as one sentence; or null. Of the client, `makeIntrospection` will tell. */
export const introspectionFault = (settings: IntrospectionSettings): string | null => {
  const { answerTimeToLive, endpoint, issuer, timeout } = settings
  const fault = issuerFault({ ...settings, algorithms: ["ES256"], jwksUri: null })
  if (fault !== null) return fault
  const wrong = endpoint === null ? null : endpointFault(issuer, endpoint)
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

const makeForm = (fields: Readonly<Record<string, string>>): SilentForm => {
  const bytes = new TextEncoder().encode(new URLSearchParams(fields).toString())
  return new SilentForm(bytes, "application/x-www-form-urlencoded", bytes.length)
}

/** The authorization server refused to be asked this: it may be about the token, and says nothing of either's standing. */
class QuestionRefused extends Data.TaggedError("QuestionRefused")<{ readonly failure: ServerFailure }> {}

/**
 * With these a server refuses a question for what is in it. Anybody can send tokens that make it do so, and must not
 * keep others from asking. A 401 is about the gateway itself, and 429 about all of its questions.
 */
const refusals: ReadonlySet<number | null> = new Set([400, 403, 413, 414, 422])

/** With these, and with no answer at all, the endpoint may have moved. */
const absences: ReadonlySet<number | null> = new Set([404, 410, null])

/** Only the lack of an answer opens the circuit. */
const classify = (exit: Exit.Exit<JsonMembers, ServerFailure | QuestionRefused>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  return Cause.squash(exit.cause) instanceof QuestionRefused ? CircuitBreaker.ignored : CircuitBreaker.failure()
}

/** Finds the endpoint, by metadata that is asked for anew after an hour, and when the endpoint may have moved. */
const makeLocate = Effect.fnUntraced(
  function*({ endpoint, issuer }: IntrospectionSettings, client: HttpClient.HttpClient) {
    if (endpoint !== null) return { locate: Effect.succeed(endpoint), forget: Effect.void }
    const found = yield* Cache.makeWith(
      (issuer: string) =>
        Effect.flatMap(
          Effect.provideService(discover(issuer), HttpClient.HttpClient, client),
          ({ introspection_endpoint: found }) =>
            found === null
              ? Effect.fail(new ServerFailure({ reason: "its metadata names no introspection endpoint", status: 200 }))
              : Effect.succeed(found)
        ),
      { capacity: 1, timeToLive: (exit) => Exit.isSuccess(exit) ? "1 hour" : 0 }
    )
    return { locate: Cache.get(found, issuer), forget: Cache.invalidate(found, issuer) }
  }
)

/** Whether the type of the token says what its binding says (RFC 9449 §6.2). Nothing need be said. */
const isConsistent = ({ token_type }: JsonMembers, { confirmation: { jkt } }: VerifiedToken): boolean =>
  token_type === undefined
  || typeof token_type === "string" && token_type.toLowerCase() === (jkt === null ? "bearer" : "dpop")

/** What servers call the tokens that are none for resource servers, in `typ`: among them Keycloak. */
const otherTypes = /^(?:refresh|offline|id)(?:[_+-].*)?$/i

/**
 * Servers introspect all of their tokens, and some tell by members of their own which it is: `token_use` (Ory Hydra) or
 * `typ`. A refresh token is for the authorization server alone (RFC 6749 §1.5), whatever its audience.
 */
const isAccessToken = ({ token_use, typ }: JsonMembers): boolean =>
  (token_use === undefined || token_use === "access_token") && !(typeof typ === "string" && otherTypes.test(typ))

/** Nothing but `true` makes a token good. */
const readAnswer = (answer: JsonMembers, rules: ClaimRules, now: number): VerifiedToken | null => {
  const isGood = answer["active"] === true && isAccessToken(answer)
  const token = isGood ? readClaims(answer, "introspection", rules, now) : null
  return token !== null && isConsistent(answer, token) ? token : null
}

/** Asks for the answer to a token: one that says whether it is active. */
const makeAsk = Effect.fnUntraced(function*(settings: IntrospectionSettings, prove: ProveClient) {
  const { issuer, timeout } = settings
  const client = yield* HttpClient.HttpClient
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const { forget, locate } = yield* makeLocate(settings, client)

  const exchange = Effect.fnUntraced(function*(token: string) {
    const endpoint = yield* locate
    const { fields, headers } = yield* prove
    const request = HttpClientRequest.post(endpoint, {
      headers,
      body: makeForm({ token, token_type_hint: "access_token", ...fields })
    })
    const answer = yield* Effect.catchIf(
      exchangeJson(client, request, { timeout, size: answerSize }),
      ({ status }) => refusals.has(status),
      (failure) => Effect.fail(new QuestionRefused({ failure }))
    )
    if (typeof answer["active"] === "boolean") return answer
    return yield* new ServerFailure({ reason: "the answer does not say whether the token is active", status: 200 })
  })

  return (token: string) =>
    exchange(token).pipe(
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.fail(new ServerFailure({ reason: "no complete answer in time", status: null }))
      }),
      Effect.tapErrorTag("ServerFailure", ({ status }) => absences.has(status) ? forget : Effect.void),
      breaker.execute({ key: `introspection ${issuer}`, classify }),
      Effect.catchTag("QuestionRefused", ({ failure }) => Effect.fail(failure)),
      Effect.catchTag("CircuitBreakerError", () =>
        Effect.fail(new ServerFailure({ reason: "not asked, because it did not answer lately", status: null }))),
      Effect.mapError((failure) =>
        new AuthorizationUnavailable({ cause: failureOf(issuer, failure) })
      )
    )
})

/**
 * Makes a verifier that asks the authorization server for each token, authenticated as its client, for settings without
 * fault (`introspectionFault`). It says whom a token is bound to, and does not check it: see `Confirmation`.
 *
 * `InvalidCredential` when the token is not active, no access token, not for us, or says too little;
 * `AuthorizationUnavailable` when there is no answer that can be understood, a refusal to answer included, or the circuit
 * is open. Fails when the client cannot authenticate so.
 */
export const makeIntrospection = Effect.fnUntraced(function*(
  settings: IntrospectionSettings
): Effect.fn.Return<
  VerifyToken,
  ClientAuthenticationFault,
  HttpClient.HttpClient | Digest.Digest | SecureRandom.SecureRandom | CircuitBreaker.CircuitBreaker
> {
  const prove = yield* makeClientProofs(settings.client, settings.issuer)
  const ask = yield* makeAsk(settings, prove)
  const verify: VerifyToken = Effect.fnUntraced(function*(redacted) {
    const token = Redacted.value(redacted)
    if (token.length > longestToken || !tokenPattern.test(token)) return yield* new InvalidCredential()
    const answer = yield* ask(token)
    const verified = readAnswer(answer, settings, (yield* Clock.currentTimeMillis) / 1000)
    return verified === null ? yield* new InvalidCredential() : verified
  })
  return yield* makeTokenCache(verify, {
    timeToLive: settings.answerTimeToLive,
    clockTolerance: settings.clockTolerance
  })
})
