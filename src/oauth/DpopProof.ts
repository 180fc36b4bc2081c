/** Verifies DPoP proofs (RFC 9449 §4), which prove that the sender of a token holds the key that it was issued to. */
import * as Clock from "effect/Clock"
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Redacted from "effect/Redacted"
import { calculateJwkThumbprint, decodeProtectedHeader, type JWK, jwtVerify, type JWTVerifyOptions } from "jose"
import { type Credential, InvalidDpopProof, NonceRequired } from "../domain/Credential.ts"
import { isJsonObject, type JsonObject } from "../http/JsonExchange.ts"
import type { DpopNonces } from "./DpopNonces.ts"
import { defaultAlgorithms, validateAlgorithms } from "./Issuer.ts"
import { isCompactJwt, maxJwtLength } from "./JsonSignature.ts"
import { importPublicKey } from "./PublicKey.ts"

/** Settings of the verification of DPoP proofs. */
export interface DpopSettings {
  readonly algorithms: ReadonlyArray<string>
  /**
   * Greatest age of a DPoP proof, apart from `clockTolerance`. The use of a DPoP proof is remembered for as long, so it also
   * bounds that memory.
   */
  readonly maxAge: Duration.Duration
  /** Greatest difference of a client's clock and the gateway's, in both directions. */
  readonly clockTolerance: Duration.Duration
  /** Null if DPoP proofs need no nonce. */
  readonly nonces: DpopNonces | null
}

/** The algorithms of FAPI 2.0, 60 seconds, 5 seconds, and no nonces. */
export const defaultDpopSettings: DpopSettings = {
  algorithms: defaultAlgorithms,
  maxAge: Duration.seconds(60),
  clockTolerance: Duration.seconds(5),
  nonces: null
}

/** Returns what is invalid in the settings, as one sentence for the operator; null if they are valid. */
export const validateDpopSettings = ({ algorithms, clockTolerance, maxAge }: DpopSettings): string | null => {
  const [age, tolerance] = [Duration.toSeconds(maxAge), Duration.toSeconds(clockTolerance)]
  if (!(age >= 1 && age <= 300)) return "A DPoP proof may be between 1 and 300 seconds old."
  if (!(tolerance >= 0 && tolerance <= 60)) {
    return "The clock tolerance for DPoP proofs must be between 0 and 60 seconds."
  }
  return validateAlgorithms(algorithms, "DPoP proofs")
}

/** Identifies a verified DPoP proof, to detect its replay. */
export interface DpopProofUse {
  /** The identifier that the client gave to the DPoP proof, unique for its key. */
  readonly jti: string
  /** SHA-256 thumbprint of its key (RFC 7638). */
  readonly jkt: string
  /** From this instant on, the DPoP proof is refused for its age, and its use need not be remembered. */
  readonly expires_at: DateTime.Utc
}

/** Verifies the DPoP proof of a credential whose token is bound to the key with the thumbprint `jkt`. */
export type VerifyDpopProof = (
  credential: Credential,
  jkt: string
) => Effect.Effect<DpopProofUse, InvalidDpopProof | NonceRequired>

const refuse = (reason: string) => Effect.fail(new InvalidDpopProof({ reason }))

interface DpopKey {
  readonly algorithm: string
  readonly key: CryptoKey
}

/** Checks 4 to 7 and 12 of RFC 9449 §4.3, except the signature: the header, and that its key is that of the token. */
const readKey = Effect.fnUntraced(function*(proof: string, algorithms: ReadonlyArray<string>, jkt: string) {
  const { alg, crit, jwk, typ } = yield* Effect.catch(
    Effect.try(() => decodeProtectedHeader(proof)),
    () => refuse("is not a JWT")
  )
  if (typeof typ !== "string" || !/^(?:application\/)?dpop\+jwt$/i.test(typ)) return yield* refuse("has another type")
  if (typeof alg !== "string" || !algorithms.includes(alg)) {
    return yield* refuse("has an algorithm that is not accepted")
  }
  if (crit !== undefined) return yield* refuse("has an extension that is not understood")
  if (!isJsonObject(jwk)) return yield* refuse("has no public key")
  const thumbprint = yield* Effect.orElseSucceed(
    Effect.tryPromise(() => calculateJwkThumbprint(jwk as JWK)),
    () => null
  )
  if (thumbprint !== jkt) return yield* refuse("is of another key than the token")
  const imported = yield* importPublicKey(jwk, alg)
  return imported === null ? yield* refuse("has no public key for its algorithm") : imported
})

/** Verifies the signature. Drops the errors of jose, because their messages quote the DPoP proof. */
const verifySignature = (proof: string, { algorithm, key }: DpopKey, now: number, tolerance: number) => {
  const options: JWTVerifyOptions = {
    algorithms: [algorithm],
    typ: "dpop+jwt",
    currentDate: new Date(now * 1000),
    clockTolerance: tolerance
  }
  return Effect.tryPromise(() => jwtVerify(proof, key, options)).pipe(
    Effect.map(({ payload }): JsonObject => payload),
    Effect.catch(() => refuse("is not signed by its key, or has expired"))
  )
}

/** Checks 3, 8, 9 and 11: the claims about the request and the token. Yields `jti` and `iat`. */
const readClaims = Effect.fnUntraced(function*(claims: JsonObject, credential: Credential, ath: string) {
  const { htm, htu, iat, jti } = claims
  if (typeof jti !== "string" || jti.length < 1 || jti.length > 256) {
    return yield* refuse("needs an identifier of 1 to 256 characters")
  }
  if (htm !== credential.method) return yield* refuse("is for another method")
  const target = typeof htu === "string" ? normalizeTargetUri(htu) : null
  if (target === null || target !== normalizeTargetUri(credential.url)) return yield* refuse("is for another URL")
  if (claims["ath"] !== ath) return yield* refuse("is for another token")
  if (typeof iat !== "number" || !Number.isFinite(iat)) return yield* refuse("does not say when it was made")
  return { iat, jti }
})

const encoder = new TextEncoder()

/**
 * Makes a verifier that runs the checks 1 to 12 of RFC 9449 §4.3. The settings must be valid (`validateDpopSettings`). The
 * caller must check for replay, after all other checks: a refused DPoP proof must not use up its identifier.
 */
export const makeDpopProofVerifier = Effect.fnUntraced(function*(
  settings: DpopSettings
): Effect.fn.Return<VerifyDpopProof, never, Digest.Digest> {
  const digests = yield* Digest.Digest
  const { algorithms, nonces } = settings
  const [maxAge, tolerance] = [Duration.toSeconds(settings.maxAge), Duration.toSeconds(settings.clockTolerance)]

  /** Check 10. It runs last, so that only an otherwise valid DPoP proof is answered with a nonce. */
  const checkNonce = Effect.fnUntraced(function*(nonce: unknown) {
    if (nonces === null || (yield* nonces.check(nonce)) !== "unknown") return
    return yield* new NonceRequired({ nonce: yield* nonces.current })
  })

  return Effect.fnUntraced(function*(credential, jkt) {
    if (credential.proof === null) return yield* refuse("is missing")
    const proof = Redacted.value(credential.proof)
    if (proof.length > maxJwtLength) return yield* refuse("is too long")
    // Several values of a header arrive joined by commas (RFC 9110 §5.3), and fail here.
    if (!isCompactJwt(proof)) return yield* refuse("is not one JWT")
    const key = yield* readKey(proof, algorithms, jkt)
    const now = (yield* Clock.currentTimeMillis) / 1000
    const claims = yield* verifySignature(proof, key, now, tolerance)
    const token = encoder.encode(Redacted.value(credential.token))
    const ath = Base64Url.encode(yield* digests.digest(Digest.sha256, token))
    const { iat, jti } = yield* readClaims(claims, credential, ath)
    if (iat > now + tolerance) return yield* refuse("was made in the future")
    if (iat < now - maxAge - tolerance) return yield* refuse("is too old")
    yield* checkNonce(claims["nonce"])
    return { jti, jkt, expires_at: DateTime.makeUnsafe(Math.ceil((iat + maxAge + tolerance) * 1000)) }
  })
})

const unreserved = /^[A-Za-z0-9._~-]$/

/** Decodes needless escapes, and writes all others in upper case (RFC 3986 §6.2.2.1 and §6.2.2.2). */
const normalizeEscapes = (path: string): string =>
  path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16))
    return unreserved.test(character) ? character : `%${hex.toUpperCase()}`
  })

/**
 * Normalizes a target URI, and removes query and fragment. The result has scheme and host in lower case, no default port,
 * no dot segments, and no needless escapes (RFC 3986 §6.2.2 and §6.2.3; RFC 9449 §4.3 requires both). Null if the text is no HTTP URI, or
 * has a user. Backslashes and blanks are refused first, because `URL` would repair them.
 */
export const normalizeTargetUri = (text: string): string | null => {
  if (!/^https?:\/\/[^\\/?#@][^\\]*$/i.test(text) || !/^[\x21-\x7e]+$/.test(text) || !URL.canParse(text)) return null
  const { host, password, pathname, protocol, username } = new URL(text)
  return username + password === "" ? `${protocol}//${host}${normalizeEscapes(pathname)}` : null
}
