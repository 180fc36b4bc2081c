/**
 * JWT access tokens (RFC 9068).
 */
import * as Clock from "effect/Clock"
import type * as Digest from "effect/crypto/Digest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Redacted from "effect/Redacted"
import { decodeJwt, decodeProtectedHeader, jwtVerify, type JWTVerifyOptions } from "jose"
import { InvalidCredential } from "../domain/Credential.ts"
import { readClaims } from "./Claims.ts"
import { isCompactJwt } from "./CompactJwt.ts"
import { type IssuerSettings, validateIssuerSettings } from "./Issuer.ts"
import { type KeySet, makeKeySet } from "./KeySet.ts"
import { longestTimeToLive, makeTokenCache, type VerifyToken } from "./TokenCache.ts"

export interface AccessTokenSettings extends IssuerSettings {
  /**
   * How long the result of a signature's verification is kept, a minute at most; zero to keep none. Expiry is checked
   * at each use, and the grant by each read.
   */
  readonly signatureTimeToLive: Duration.Input
}

/** What is wrong with the settings, as one sentence; or null. */
export const validateAccessTokenSettings = (settings: AccessTokenSettings): string | null => {
  const kept = Duration.fromInputUnsafe(settings.signatureTimeToLive)
  return validateIssuerSettings(settings) ?? (Duration.isGreaterThan(kept, longestTimeToLive)
    ? `Verified signatures of ${settings.issuer} may be kept for 60 seconds at most.`
    : null)
}

const invalid = Effect.fail(new InvalidCredential())

/** The issuer that a JWT names, before anything is verified: to choose who verifies it, and for nothing else. */
export const claimedIssuer = (token: string): string | null => {
  if (!isCompactJwt(token)) return null
  try {
    const { iss } = decodeJwt(token)
    return typeof iss === "string" ? iss : null
  } catch {
    return null
  }
}

interface Header {
  readonly algorithm: string
  readonly kid: string | undefined
}

/**
 * What of the header is used: algorithm and name of the key. Keys that a header brings along or points to (`jwk`, `jku`,
 * `x5c`, `x5u`) are never looked at, and an extension that must be understood (`crit`) is one that we do not.
 */
const readHeader = (token: string, algorithms: ReadonlyArray<string>): Header | null => {
  try {
    const { alg, crit, kid, typ } = decodeProtectedHeader(token)
    if (typeof alg !== "string" || !algorithms.includes(alg) || crit !== undefined) return null
    if (typeof typ !== "string" || !/^(?:application\/)?at\+jwt$/i.test(typ)) return null
    return kid === undefined || typeof kid === "string" ? { algorithm: alg, kid } : null
  } catch {
    return null
  }
}

/**
 * Nothing is asked of the authorization server for a token that names another. Whatever jose throws, the token is not
 * good: its messages quote the claims, so they go no further.
 */
const verifyJwt = (keys: KeySet, settings: AccessTokenSettings): VerifyToken =>
  Effect.fnUntraced(function*(redacted) {
    const { algorithms, audience, clockTolerance, issuer } = settings
    const token = Redacted.value(redacted)
    const header = isCompactJwt(token) ? readHeader(token, algorithms) : null
    if (header === null || claimedIssuer(token) !== issuer) return yield* invalid
    const key = yield* keys.find(header)
    const now = yield* Clock.currentTimeMillis
    const options: JWTVerifyOptions = {
      algorithms: [header.algorithm],
      issuer,
      audience,
      typ: "at+jwt",
      clockTolerance,
      currentDate: new Date(now),
      requiredClaims: ["exp", "iat", "jti", "sub", "client_id"]
    }
    const { payload } = yield* Effect.catch(Effect.tryPromise(() => jwtVerify(token, key, options)), () => invalid)
    const verified = readClaims(payload, "token", settings, now / 1000)
    return verified === null ? yield* invalid : verified
  })

/**
 * Makes a verifier for the access tokens of one issuer: type, algorithm, signature, issuer, audience, times and the form
 * of all claims that are used (RFC 9068 §4). It says whom a token is bound to, and does not check it: see
 * `Confirmation`. The settings must be without fault (`validateAccessTokenSettings`).
 *
 * `InvalidCredential` for whatever is wrong with a token; `AuthorizationUnavailable` when keys cannot be fetched.
 */
export const makeAccessTokens = Effect.fnUntraced(function*(
  settings: AccessTokenSettings
): Effect.fn.Return<VerifyToken, never, HttpClient.HttpClient | Digest.Digest> {
  const keys = yield* makeKeySet(settings)
  return yield* makeTokenCache(verifyJwt(keys, settings), {
    timeToLive: settings.signatureTimeToLive,
    clockTolerance: settings.clockTolerance
  })
})
