/**
 * The issuer at which operators sign in: authorization code flow of OpenID Connect, with PKCE. No token outlives the sign-in.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as oauth from "oauth4webapi"
import { IssuerUnavailable, makeOpenIdProvider } from "../../../oauth/OpenIdProvider.ts"
import type { OidcSettings } from "../ConsoleSettings.ts"
import type { LoginAttempt } from "./LoginAttempts.ts"

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
