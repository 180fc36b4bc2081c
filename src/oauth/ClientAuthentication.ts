/**
 * Authenticates the gateway, as a client, to an authorization server.
 *
 * The gateway's own access token at another server, such as a bank (RFC 6749 §4.4): mutual TLS authenticates the gateway (RFC 8705 §2), so the
 * request has no secret. A token is used until shortly before it expires.
 */
import * as Clock from "effect/Clock"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import { importJWK, type JWK, SignJWT } from "jose"
import { exchangeJson, isJsonObject, ServerFailure } from "../http/JsonExchange.ts"
import { RedactedBody } from "../http/OutgoingRequest.ts"

/** How the gateway authenticates as a client of an authorization server (RFC 7662 §2.1). */
export type ClientAuthentication =
  | {
    readonly method: "client_secret_basic"
    readonly clientId: string
    readonly secret: Redacted.Redacted<string>
  }
  | {
    readonly method: "private_key_jwt"
    readonly clientId: string
    /**
     * The private key as a JSON Web Key. The assertion gets its `alg` and `kid`. Without `alg`, the type of the key
     * selects ES256, `EdDSA` with Ed25519, or PS256.
     */
    readonly key: Redacted.Redacted<JWK>
  }

/** The configuration of the authorization servers is invalid. */
export class AuthorizationMisconfigured extends Data.TaggedError("AuthorizationMisconfigured")<{
  /** One sentence for the operator. Contains no secret. */
  readonly reason: string
}> {
  override get message() {
    return this.reason
  }
}

/** Headers and form fields that authenticate the client in one request. */
interface ClientCredentials {
  readonly headers: Readonly<Record<string, string>>
  readonly fields: Readonly<Record<string, string>>
}

/** Makes the credentials of one request: an assertion is for one use. */
export type AuthenticateClient = Effect.Effect<ClientCredentials>

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

/** Lifetime of an assertion, in seconds. */
const assertionLifetime = 60

/** Encodes a client id or secret for HTTP Basic: RFC 6749 §2.3.1 requires form encoding before they are joined. */
const formEncode = (text: string): string => new URLSearchParams([["", text]]).toString().slice(1)

const invalid = (reason: string) => Effect.fail(new AuthorizationMisconfigured({ reason }))

const algorithmOf = ({ alg, crv, kty }: JWK): string | null => {
  if (alg !== undefined) return /^(?:ES|PS|RS)\d{3}$|^Ed(?:DSA|25519)$/.test(alg) ? alg : null
  if (kty === "EC" && crv === "P-256") return "ES256"
  if (kty === "OKP" && crv === "Ed25519") return "EdDSA"
  return kty === "RSA" ? "PS256" : null
}

const makeAssertionAuthentication = Effect.fnUntraced(
  function*(clientId: string, redacted: Redacted.Redacted<JWK>, issuer: string) {
    const random = yield* SecureRandom.SecureRandom
    const jwk = Redacted.value(redacted)
    const algorithm = isJsonObject(jwk) ? algorithmOf(jwk) : null
    if (algorithm === null) {
      return yield* invalid(`The key for ${issuer} must be a private key with an asymmetric algorithm.`)
    }
    const key = yield* Effect.catch(
      Effect.tryPromise(() => importJWK(jwk, algorithm)),
      () => invalid(`The key for ${issuer} cannot be imported for ${algorithm}.`)
    )
    if (key instanceof Uint8Array || key.type !== "private") {
      return yield* invalid(`The key for ${issuer} is not private.`)
    }
    const header = { alg: algorithm, ...(typeof jwk.kid === "string" ? { kid: jwk.kid } : {}) }

    const authenticateClient = Effect.gen(function*() {
      const now = Math.floor((yield* Clock.currentTimeMillis) / 1000)
      const jti = yield* random.uuidV4()
      const claims = { iss: clientId, sub: clientId, aud: issuer, jti, iat: now, exp: now + assertionLifetime }
      const assertion = yield* Effect.tryPromise(() => new SignJWT(claims).setProtectedHeader(header).sign(key))
      return {
        headers: {},
        fields: { client_id: clientId, client_assertion_type: assertionType, client_assertion: assertion }
      }
    })
    // Sign once now, so that a key that cannot sign stops the start, and not the first introspection.
    yield* Effect.catch(authenticateClient, () => invalid(`The key for ${issuer} cannot sign with ${algorithm}.`))
    return Effect.orDie(authenticateClient)
  }
)

/**
 * Makes the client authentication at an issuer: `client_secret_basic` (RFC 6749 §2.3.1), or `private_key_jwt` (RFC 7523
 * §2.2). The audience of assertions is the issuer, as FAPI 2.0 requires (Security Profile §5.3.2.1). Fails with
 * `AuthorizationMisconfigured` on an empty id or secret, and on a key that cannot sign.
 */
export const makeClientAuthentication = Effect.fnUntraced(function*(
  client: ClientAuthentication,
  issuer: string
): Effect.fn.Return<AuthenticateClient, AuthorizationMisconfigured, SecureRandom.SecureRandom> {
  if (client.clientId === "") return yield* invalid(`The gateway needs a client id at ${issuer}.`)
  if (client.method === "private_key_jwt") {
    return yield* makeAssertionAuthentication(client.clientId, client.key, issuer)
  }
  const secret = Redacted.value(client.secret)
  if (secret === "") return yield* invalid(`The gateway needs a client secret at ${issuer}.`)
  const authorization = `Basic ${Base64.encode(`${formEncode(client.clientId)}:${formEncode(secret)}`)}`
  return Effect.succeed({ headers: { authorization }, fields: {} })
})

/** Milliseconds before its end at which a token is replaced: longer than a request takes. */
const margin = 60_000

const limits = { timeout: "10 seconds", size: 65_536 } as const

/** Makes the function that finds the token. It fails with `ServerFailure`. */
export const makeClientToken = Effect.fnUntraced(function*(
  { clientId, scope, tokenUrl }: { readonly tokenUrl: string; readonly clientId: string; readonly scope: string }
) {
  const client = yield* HttpClient.HttpClient
  let known: { readonly token: Redacted.Redacted<string>; readonly until: number } | null = null

  return Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (known !== null && now < known.until) return known.token
    const body = RedactedBody.form({ grant_type: "client_credentials", client_id: clientId, scope })
    const { access_token, expires_in } = yield* exchangeJson(
      client,
      HttpClientRequest.post(tokenUrl, { body }),
      limits
    )
    if (typeof access_token !== "string" || !/^[\x21-\x7e]+$/u.test(access_token)) {
      return yield* new ServerFailure({ reason: "the answer has no access token", status: 200 })
    }
    const token = Redacted.make(access_token)
    known = { token, until: typeof expires_in === "number" ? now + expires_in * 1000 - margin : 0 }
    return token
  })
})
