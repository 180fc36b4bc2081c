/**
 * The issuer at which operators sign in: authorization code flow of OpenID Connect, with PKCE. No token outlives the sign-in.
 * The browser keeps its attempt to sign in in a cookie, and the process keeps only one key: visitors without a session take no memory of it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as oauth from "oauth4webapi"
import { IssuerUnavailable, makeOpenIdProvider } from "../../../oauth/OpenIdProvider.ts"
import type { OidcSettings } from "../ConsoleSettings.ts"
import { deriveSecret, newSecret } from "./Sessions.ts"

const authenticationOf = (server: oauth.AuthorizationServer, secret: string): oauth.ClientAuth => {
  const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"]
  return methods.includes("client_secret_basic") || !methods.includes("client_secret_post")
    ? oauth.ClientSecretBasic(secret)
    : oauth.ClientSecretPost(secret)
}

/** The issuer, whose metadata and keys are read when they are needed. `redirectUri` is the address of its answers. */
export const makeOidcIssuer = Effect.fnUntraced(function*(settings: OidcSettings, redirectUri: string) {
  const client: oauth.Client = { client_id: settings.clientId }
  const { exchange, metadata } = yield* makeOpenIdProvider(settings.issuer)
  const keys: oauth.JWKSCacheInput = {}

  const discover = Effect.flatMap(metadata, (server) =>
    server.authorization_endpoint === undefined
      ? Effect.fail(new IssuerUnavailable({ reason: "the metadata name no authorization endpoint" }))
      : Effect.succeed(server))

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
      return yield* exchange(async (options) => {
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

/** Milliseconds for which an operator may take to sign in. */
export const attemptLifetime = 10 * 60_000

/** One attempt. Only the browser with its cookie can finish it. */
interface LoginAttempt {
  /** For the cookie of the browser. */
  readonly cookie: string
  /** Binds the answer of the issuer to the browser (RFC 6749 §10.12). */
  readonly state: string
  /** Binds the ID token to the attempt (OpenID Connect Core §3.1.2.1). */
  readonly nonce: string
  /** Binds the authorization code to the attempt (RFC 7636). */
  readonly codeVerifier: string
  /** The path of the console to go to. */
  readonly next: string
}

/** Paths of the console that may follow a sign-in. */
const nextPattern = /^\/console(?:\/[\w.~/-]{0,256})?$/

/** Browsers resolve `..`, which leads out of the console. */
const hasDotSegment = (path: string): boolean => path.split("/").some((segment) => segment === "." || segment === "..")

const pathOr = (path: string | undefined): string =>
  path !== undefined && nextPattern.test(path) && !hasDotSegment(path) ? path : "/console"

export const makeLoginAttempts = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const key = newSecret()

  /** Another cookie has another state, which only the key tells. So the cookie needs no signature. */
  const attemptOf = (cookie: string, next: string): LoginAttempt => ({
    cookie,
    state: deriveSecret(key, "state", cookie),
    nonce: deriveSecret(key, "nonce", cookie),
    codeVerifier: deriveSecret(key, "code verifier", cookie),
    next
  })

  return {
    /** A new attempt. `next` is the path to go to; other text than a path of the console counts as its first page. */
    begin: (next?: string): LoginAttempt => {
      const path = pathOr(next)
      const end = clock.currentTimeMillisUnsafe() + attemptLifetime
      return attemptOf(`${newSecret()}.${end}.${Buffer.from(path).toString("base64url")}`, path)
    },
    /** The attempt of a cookie. Null: it has ended, or the cookie is none of an attempt. */
    find: (cookie: string): LoginAttempt | null => {
      const [, end, path = ""] = cookie.split(".")
      return Number(end) > clock.currentTimeMillisUnsafe()
        ? attemptOf(cookie, pathOr(Buffer.from(path, "base64url").toString()))
        : null
    }
  }
})
