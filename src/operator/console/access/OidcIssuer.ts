/**
 * The issuer at which operators sign in: authorization code flow of OpenID Connect, with PKCE. No token outlives the sign-in.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as oauth from "oauth4webapi"
import { cappedFetch } from "../../../http/exchangeLimits.ts"
import { loopbackHosts } from "../../../http/OutgoingRequest.ts"
import type { OidcSettings } from "../ConsoleSettings.ts"
import type { LoginAttempt } from "./LoginAttempts.ts"

/** Milliseconds for which the metadata of the issuer are used before they are read again. */
const metadataAge = 3_600_000

/** Milliseconds for one request to the issuer. */
const timeout = 5000

/** Most bytes of a response. */
const maxBody = 1_048_576

/** The issuer did not answer, or not as OpenID Connect demands. `reason` is for the log, and holds nothing secret. */
export class IssuerUnavailable extends Data.TaggedError("IssuerUnavailable")<{ readonly reason: string }> {}

/** The issuer refused the sign-in, or its answer does not belong to this attempt. */
export class SignInRefused extends Data.TaggedError("SignInRefused")<{ readonly reason: string }> {}

/** Codes of answers that are complete, and refuse or do not fit. */
const refusals = new Set<string>([
  oauth.AUTHORIZATION_RESPONSE_ERROR,
  oauth.RESPONSE_BODY_ERROR,
  oauth.INVALID_RESPONSE,
  oauth.JWT_TIMESTAMP_CHECK,
  oauth.JWT_CLAIM_COMPARISON,
  oauth.KEY_SELECTION,
  oauth.UNSUPPORTED_OPERATION
])

/** The failure without what the issuer sent: messages of `oauth4webapi` are its own texts. */
const toFailure = (cause: unknown): IssuerUnavailable | SignInRefused => {
  const code = cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : null
  if (code === null || !code.startsWith("OAUTH_")) {
    return new IssuerUnavailable({ reason: cause instanceof Error ? cause.name : "an unknown failure" })
  }
  const reason = cause instanceof oauth.OperationProcessingError ? cause.message : code
  return refusals.has(code) ? new SignInRefused({ reason }) : new IssuerUnavailable({ reason })
}

const attempt = <A>(run: (signal: AbortSignal) => Promise<A>) => Effect.tryPromise({ try: run, catch: toFailure })

/** Secrets go by https. An issuer on this machine, such as one for tests, needs none. */
const isInsecure = (issuer: string): boolean =>
  issuer.startsWith("http://") && loopbackHosts.has(new URL(issuer).hostname)

const authenticationOf = (server: oauth.AuthorizationServer, secret: string): oauth.ClientAuth => {
  const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"]
  return methods.includes("client_secret_basic") || !methods.includes("client_secret_post")
    ? oauth.ClientSecretBasic(secret)
    : oauth.ClientSecretPost(secret)
}

/** The issuer, whose metadata and keys are read when they are needed. `redirectUri` is the address of its answers. */
export const makeOidcIssuer = Effect.fnUntraced(function*(settings: OidcSettings, redirectUri: string) {
  const clock = yield* Clock.Clock
  const issuer = new URL(settings.issuer)
  const client: oauth.Client = { client_id: settings.clientId }
  const keys: oauth.JWKSCacheInput = {}
  const fetchCapped = cappedFetch(maxBody)
  let known: { readonly server: oauth.AuthorizationServer; readonly until: number } | null = null

  const optionsFor = (signal: AbortSignal) => ({
    [oauth.allowInsecureRequests]: isInsecure(settings.issuer),
    [oauth.customFetch]: (url: string, init: object) => fetchCapped(url, { ...init, redirect: "manual" }),
    signal: () => AbortSignal.any([signal, AbortSignal.timeout(timeout)])
  })

  const discover = Effect.gen(function*() {
    if (known !== null && clock.currentTimeMillisUnsafe() < known.until) return known.server
    const server = yield* attempt(async (signal) =>
      oauth.processDiscoveryResponse(
        issuer,
        await oauth.discoveryRequest(issuer, { ...optionsFor(signal), algorithm: "oidc" })
      )
    ).pipe(Effect.mapError(({ reason }) => new IssuerUnavailable({ reason })))
    if (server.authorization_endpoint === undefined) {
      return yield* new IssuerUnavailable({ reason: "the metadata name no authorization endpoint" })
    }
    known = { server, until: clock.currentTimeMillisUnsafe() + metadataAge }
    return server
  })

  /** The URL at which the operator signs in. */
  const authorizationUrl = Effect.fnUntraced(function*({ codeVerifier, nonce, state }: LoginAttempt) {
    const server = yield* discover
    const url = new URL(server.authorization_endpoint!)
    const challenge = yield* Effect.promise(() => oauth.calculatePKCECodeChallenge(codeVerifier))
    const parameters = {
      client_id: settings.clientId,
      redirect_uri: redirectUri,
      response_type: "code",
      scope: "openid profile email",
      state,
      nonce,
      code_challenge: challenge,
      code_challenge_method: "S256"
    }
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    return url
  })

  /**
   * The verified claims of the ID token, for the answer that the issuer sent by the browser. Signature, issuer, audience, times, nonce, state
   * and code belong to the attempt, or it fails.
   */
  const claimsFor = Effect.fnUntraced(
    function*(answer: URLSearchParams, { codeVerifier, nonce, state }: LoginAttempt) {
      const server = yield* discover
      return yield* attempt(async (signal) => {
        const options = optionsFor(signal)
        const response = await oauth.authorizationCodeGrantRequest(
          server,
          client,
          authenticationOf(server, Redacted.value(settings.clientSecret)),
          oauth.validateAuthResponse(server, client, answer, state),
          redirectUri,
          codeVerifier,
          options
        )
        const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
          expectedNonce: nonce,
          requireIdToken: true
        })
        await oauth.validateApplicationLevelSignature(server, response, { ...options, [oauth.jwksCache]: keys })
        return oauth.getValidatedIdTokenClaims(tokens)!
      })
    }
  )

  return { authorizationUrl, claimsFor }
})
