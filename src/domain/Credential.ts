/**
 * The credential of a request, and the reasons for which a verifier refuses it.
 *
 * Opaque access tokens of the gateway have 256 random bits in a form that secret scanners can recognise and verify offline:
 * `fingw_` + 43 base62 digits (the secret) + 6 base62 digits (the first 4 bytes of SHA-256 over the text before them).
 * The checksum tells a leaked token from a similar text. It does not authenticate the holder.
 */
import * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** An access token, and what identifies its sender in the request. */
export interface Credential {
  readonly scheme: "Bearer" | "DPoP"
  readonly token: Redacted.Redacted<string>
  /** The `DPoP` header as received (RFC 9449 §4.1). Null if there was none. */
  readonly proof: Redacted.Redacted<string> | null
  /** SHA-256 thumbprint (RFC 8705 §3.1) of the client certificate that a trusted proxy forwarded, or null. */
  readonly certificate: string | null
  readonly method: string
  /** The URL of the request below the base URL, never from `Host`, without query and fragment. */
  readonly url: string
  /**
   * The URL of the resource that the request is for, if it is not the gateway as a whole (`McpResource`). Tokens for that URL
   * alone are good for this request, beside the tokens for the gateway. Null: only tokens for the gateway are.
   */
  readonly resource: string | null
}

/** A bearer token (RFC 6750), without proof of its sender. */
export const bearer = (token: Redacted.Redacted<string>): Credential => ({
  scheme: "Bearer",
  token,
  proof: null,
  certificate: null,
  method: "GET",
  url: "",
  resource: null
})

/** The credential is malformed, unknown or expired, is for another audience, or was not issued to its sender. */
export class InvalidCredential extends Schema.TaggedError<InvalidCredential>()("InvalidCredential", {
  /** For the log, and never for the client: why, such as a code of the library that verifies. It holds nothing of the credential. */
  reason: Schema.optionalKey(Schema.String)
}) {}

/** The DPoP proof is missing, or does not bind this request to the key of the token (RFC 9449 §4.3). */
export class InvalidDpopProof extends Schema.TaggedError<InvalidDpopProof>()("InvalidDpopProof", {
  /** For people. It holds no value of the DPoP proof. */
  reason: Schema.String
}) {}

/** The DPoP proof must carry this nonce (RFC 9449 §9). */
export class NonceRequired extends Schema.TaggedError<NonceRequired>()("NonceRequired", { nonce: Schema.String }) {}

/** Keys or the authorization server could not be reached, so the credential cannot be verified. Fail closed. */
export class AuthorizationUnavailable extends Schema.TaggedError<AuthorizationUnavailable>()(
  "AuthorizationUnavailable",
  { cause: Schema.Defect() }
) {}

/** The pattern for secret scanners. */
export const accessTokenPattern = /^fingw_[0-9A-Za-z]{49}$/

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const encoder = new TextEncoder()

const base62 = (bytes: Uint8Array, length: number): string => {
  let rest = bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n)
  let text = ""
  for (; rest > 0n; rest /= 62n) text = digits[Number(rest % 62n)] + text
  return text.padStart(length, "0")
}

const sha256 = Digest.sha256

/** Generates a token. It is shown once and never stored: see `accessTokenDigest`. */
export const generateAccessToken: Effect.Effect<
  Redacted.Redacted<string>,
  never,
  SecureRandom.SecureRandom | Digest.Digest
> = Effect.gen(function*() {
  const random = yield* SecureRandom.SecureRandom
  const digest = yield* Digest.Digest
  const text = `fingw_${base62(yield* random.randomBytes(32), 43)}`
  const checksum = (yield* digest.digest(sha256, encoder.encode(text))).subarray(0, 4)
  return Redacted.make(text + base62(checksum, 6), { label: "access token" })
})

/** The bytes of a token, which is ASCII. The encoder would take a third of the time of the digest. */
const bytesOf = (token: string): Uint8Array => {
  const bytes = new Uint8Array(token.length)
  for (let index = 0; index < token.length; index++) bytes[index] = token.charCodeAt(index)
  return bytes
}

/** SHA-256 of a token in hexadecimal, which is stored. 256 random bits need no salt and no slow hash. */
export const accessTokenDigest = (digests: Digest.Digest["Service"], token: string): Effect.Effect<string> =>
  digests.digestHex(sha256, bytesOf(token))
