/**
 * Requests of OpenID Connect CIBA (Client-Initiated Backchannel Authentication) at a provider: the question, and the polls for its answer.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as oauth from "oauth4webapi"
import {
  AuthorizationMisconfigured,
  type ClientAuthentication,
  makeClientAuthentication
} from "../oauth/ClientAuthentication.ts"
import { issuerSettings, validateIssuerSettings } from "../oauth/Issuer.ts"
import { IssuerRefused, makeOpenIdProvider } from "../oauth/OpenIdProvider.ts"

/** Names the person to the provider (CIBA §7.1): exactly one of the three. */
export type LoginHint =
  | { readonly login_hint: string }
  | { readonly login_hint_token: string }
  | { readonly id_token_hint: string }

/** The claims of a verified ID token. */
export type IdTokenClaims = Readonly<Record<string, unknown>> & { readonly sub: string }

export interface BackchannelSettings {
  /** The issuer of the ID tokens. Its metadata name the endpoints. */
  readonly issuer: string
  /** How the gateway authenticates as a client of the provider. */
  readonly client: ClientAuthentication
  /** Accepted signature algorithms of ID tokens. Default: those of FAPI 2.0, which are ES256, EdDSA, Ed25519 and PS256. */
  readonly algorithms?: ReadonlyArray<string>
  /** Ways to authenticate the person, the preferred one in front. The ID token must name one of them. Default: any. */
  readonly acrValues?: ReadonlyArray<string>
}

interface Question {
  readonly hint: LoginHint
  readonly bindingMessage: string
  /** Seconds. */
  readonly requestedExpiry: number
  /** Null: the provider sends no notification. */
  readonly notificationToken: string | null
}

/** A question that the provider accepted. */
export interface Asked {
  readonly authReqId: string
  /** Seconds. */
  readonly expiresIn: number
  /** Seconds between two polls. */
  readonly interval: number
  /** Seconds since 1970. */
  readonly askedAt: number
}

/** Milliseconds for one poll: the provider may hold it until the person answers (CIBA §7.3). */
const pollTimeout = 30_000

/** Greatest difference of the clocks, in seconds. */
const clockTolerance = 30

/** The claim that binds an ID token to its request, where the provider sends it. */
const requestClaim = "urn:openid:params:jwt:claim:auth_req_id"

const invalid = (reason: string) => Effect.fail(new IssuerRefused({ reason, error: null }))

export const makeBackchannelAuthentication = Effect.fnUntraced(function*(
  { acrValues = [], algorithms, client: authentication, issuer }: BackchannelSettings
) {
  const settings = issuerSettings({
    issuer,
    audience: authentication.clientId,
    ...algorithms === undefined ? {} : { algorithms }
  })
  const reason = validateIssuerSettings(settings)
  if (reason !== null) return yield* new AuthorizationMisconfigured({ reason })
  const authenticate = yield* makeClientAuthentication(authentication, issuer)
  const { exchange, metadata } = yield* makeOpenIdProvider(issuer)
  const client: oauth.Client = { client_id: authentication.clientId, [oauth.clockTolerance]: clockTolerance }
  const keys: oauth.JWKSCacheInput = {}
  /**
   * Header and payload of the ID tokens that were accepted, with their ends in seconds since 1970: each answers one question. Others can
   * make a second valid signature out of the first one of ES256.
   */
  const used = new Map<string, number>()

  /** The metadata, without the algorithms of signatures that the gateway does not accept. */
  const server = Effect.map(metadata, (found): oauth.AuthorizationServer => ({
    ...found,
    id_token_signing_alg_values_supported: [...settings.algorithms]
  }))

  const clientAuthentication = Effect.map(
    authenticate,
    ({ fields, headers }): oauth.ClientAuth => (_server, _client, body, to) => {
      for (const [name, value] of Object.entries(fields)) body.set(name, value)
      for (const [name, value] of Object.entries(headers)) to.set(name, value)
    }
  )

  const ask = Effect.fnUntraced(function*({ bindingMessage, hint, notificationToken, requestedExpiry }: Question) {
    const to = yield* server
    const auth = yield* clientAuthentication
    const askedAt = Math.floor((yield* Clock.currentTimeMillis) / 1000)
    const parameters: Record<string, string> = {
      scope: "openid",
      ...hint,
      binding_message: bindingMessage,
      requested_expiry: String(requestedExpiry),
      ...acrValues.length === 0 ? {} : { acr_values: acrValues.join(" ") },
      ...notificationToken === null ? {} : { client_notification_token: notificationToken }
    }
    const { auth_req_id, expires_in, interval = 5 } = yield* exchange(async (options) =>
      oauth.processBackchannelAuthenticationResponse(
        to,
        client,
        await oauth.backchannelAuthenticationRequest(to, client, auth, parameters, options)
      )
    )
    return { authReqId: auth_req_id, expiresIn: expires_in, interval, askedAt }
  })

  /** What `oauth4webapi` does not check: that the ID token answers this question, once, and how the person was authenticated. */
  const check = Effect.fnUntraced(function*(claims: oauth.IDToken, idToken: string, { askedAt, authReqId }: Asked) {
    const now = (yield* Clock.currentTimeMillis) / 1000
    for (const [token, exp] of used) if (exp + clockTolerance < now) used.delete(token)
    const request = claims[requestClaim]
    if (request !== undefined && request !== authReqId) return yield* invalid("the ID token answers another request")
    if (claims.iat < askedAt - clockTolerance) return yield* invalid("the ID token is older than the request")
    const signed = idToken.slice(0, idToken.lastIndexOf("."))
    if (used.has(signed)) return yield* invalid("the ID token has answered another request")
    if (acrValues.length > 0 && !acrValues.includes(claims["acr"] as string)) {
      return yield* invalid("the ID token names none of the demanded ways to authenticate (acr)")
    }
    used.set(signed, claims.exp)
    return claims as IdTokenClaims
  })

  const poll = Effect.fnUntraced(function*(asked: Asked) {
    const to = yield* server
    const auth = yield* clientAuthentication
    const { claims, idToken } = yield* exchange(async (options) => {
      const response = await oauth.backchannelAuthenticationGrantRequest(to, client, auth, asked.authReqId, options)
      const tokens = await oauth.processBackchannelAuthenticationGrantResponse(to, client, response)
      const claims = oauth.getValidatedIdTokenClaims(tokens)
      if (claims === undefined) return { claims: null, idToken: "" }
      await oauth.validateApplicationLevelSignature(to, response, { ...options, [oauth.jwksCache]: keys })
      return { claims, idToken: tokens.id_token! }
    }, pollTimeout)
    return claims === null ? yield* invalid("the answer has no ID token") : yield* check(claims, idToken, asked)
  })

  return { ask, poll }
})
