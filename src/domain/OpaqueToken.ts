/**
 * Opaque access tokens of the gateway: 256 random bits in a form that secret scanners can recognise and verify offline.
 *
 * `fingw_` + 43 base62 digits (the secret) + 6 base62 digits (the first 4 bytes of SHA-256 over the text before them).
 * The checksum tells a leaked token from a similar text. It does not authenticate the holder.
 */
import * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"

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
