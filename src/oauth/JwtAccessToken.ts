/**
 * Verifies JWT access tokens (RFC 9068).
 *
 * The room `oauth`: access tokens and their proofs, and what authorization servers publish. Read this file first.
 */
import * as Clock from "effect/Clock"
import type * as Digest from "effect/crypto/Digest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Redacted from "effect/Redacted"
import { decodeJwt, decodeProtectedHeader, jwtVerify, type JWTVerifyOptions } from "jose"
import { InvalidCredential } from "../domain/Credential.ts"
import { type IssuerSettings, validateIssuerSettings } from "./Issuer.ts"
import { isCompactJwt } from "./JsonSignature.ts"
import { type KeySet, makeKeySet } from "./KeySet.ts"
import { longestTimeToLive, makeTokenCache, type VerifyToken } from "./TokenCache.ts"
import { acceptedAudiences, readClaims } from "./TokenClaims.ts"

interface AccessTokenSettings extends IssuerSettings {
  /**
   * How long a verified signature is cached, at most 60 seconds; zero disables the cache. Every use of a cached token checks
   * its expiry, and every read checks its grant.
   */
  readonly signatureTimeToLive: Duration.Input
}

/** Returns what is invalid in the settings, as one sentence for the operator; null if they are valid. */
export const validateAccessTokenSettings = (settings: AccessTokenSettings): string | null => {
  const kept = Duration.fromInputUnsafe(settings.signatureTimeToLive)
  return validateIssuerSettings(settings) ?? (Duration.isGreaterThan(kept, longestTimeToLive)
    ? `Verified signatures of ${settings.issuer} may be kept for 60 seconds at most.`
    : null)
}

const invalid = Effect.fail(new InvalidCredential())

/** The issuer that an unverified JWT names; null if it is no JWT or names none. Use it only to select the verifier. */
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
 * Reads algorithm and key id from the header; null if the header is not accepted. It ignores keys in the header (`jwk`,
 * `jku`, `x5c`, `x5u`) and refuses every critical extension (`crit`), because the gateway supports none.
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
 * Verifies one token. A token of another issuer is refused before any key is fetched. Every error of jose becomes
 * `InvalidCredential`, because its messages quote the claims.
 */
const verifyJwt = (keys: KeySet, settings: AccessTokenSettings): VerifyToken =>
  Effect.fnUntraced(function*(redacted, resource) {
    const { algorithms, clockTolerance, issuer } = settings
    const token = Redacted.value(redacted)
    const header = isCompactJwt(token) ? readHeader(token, algorithms) : null
    if (header === null || claimedIssuer(token) !== issuer) return yield* invalid
    const found = yield* keys.find(header)
    const now = yield* Clock.currentTimeMillis
    const options: JWTVerifyOptions = {
      algorithms: [header.algorithm],
      issuer,
      audience: acceptedAudiences(settings, resource),
      typ: "at+jwt",
      clockTolerance,
      currentDate: new Date(now),
      requiredClaims: ["exp", "iat", "jti", "sub", "client_id"]
    }
    const attempts = found.map((key) => Effect.tryPromise(() => jwtVerify(token, key, options)))
    const { payload } = yield* Effect.catch(Effect.firstSuccessOf(attempts), () => invalid)
    const verified = readClaims(payload, "token", settings, resource, now / 1000)
    return verified === null ? yield* invalid : verified
  })

/**
 * Makes a verifier for the access tokens of one issuer. It checks type, algorithm, signature, issuer, audience, times and
 * the form of all claims that the gateway uses (RFC 9068 §4). It yields the confirmation of a sender-constrained token
 * without checking it: `makeConfirm` does. The settings must be valid (`validateAccessTokenSettings`).
 *
 * The verifier fails with `InvalidCredential` on an invalid token, and with `AuthorizationUnavailable` if keys cannot be
 * fetched.
 */
export const makeAccessTokenVerifier = Effect.fnUntraced(function*(
  settings: AccessTokenSettings
): Effect.fn.Return<VerifyToken, never, HttpClient.HttpClient | Digest.Digest> {
  const keys = yield* makeKeySet(settings)
  return yield* makeTokenCache(verifyJwt(keys, settings), {
    timeToLive: settings.signatureTimeToLive,
    clockTolerance: settings.clockTolerance
  })
})
