/**
 * Sealed tokens, on the keys of a ledger. A token is base64url of: 4 bytes that name the key, 24 of the nonce, the ciphertext, and
 * 16 of the tag.
 *
 * XChaCha20-Poly1305 has nonces of 192 bits. So they can be random, and no number of tokens makes a new key necessary.
 */
import * as Bytes from "effect/Bytes"
import * as Clock from "effect/Clock"
import * as Aead from "effect/crypto/Aead"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Hex from "effect/encoding/Hex"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** A key of the ledger. */
export interface TokenKey {
  /** The name that tokens have in front: 8 hexadecimal digits. */
  readonly name: string
  /** 32 bytes. */
  readonly key: Redacted.Redacted<Uint8Array>
}

/** The keys of a ledger, newest first: one at least. */
export type TokenKeys = readonly [TokenKey, ...ReadonlyArray<TokenKey>]

interface KeyRing {
  readonly newest: string
  readonly keys: ReadonlyMap<string, Aead.Key>
  /** The monotonic clock in milliseconds. */
  readonly readAt: number
}

/** How long a process seals with the newest key that it knows. */
const lifetime = Duration.minutes(1)

/** A token may name a key that is newer than the ring. Forged ones make the process read the keys this often at most. */
const leastAge = Duration.toMillis(Duration.seconds(1))

const algorithm = Aead.xchacha20Poly1305
const nameLength = 4

/** The length of a token tells how many transactions were running, so it is rounded. */
const padded = (text: string) => text.padEnd(Math.ceil(text.length / 64) * 64)

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const additional = (context: ReadonlyArray<unknown>) => encoder.encode(JSON.stringify(context))

const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

/** Makes `TokenCipher` on keys that are read when the first token is sealed or opened. */
export const makeTokenCipher = Effect.fnUntraced(function*(read: Effect.Effect<TokenKeys, StoreUnavailable>) {
  const aead = yield* Aead.Aead
  const random = yield* SecureRandom.SecureRandom

  const readRing = Effect.gen(function*() {
    const readAt = yield* monotonicMillis
    const keys = yield* read
    const ring = new Map<string, Aead.Key>()
    for (const { key, name } of keys) ring.set(name, yield* Effect.orDie(Aead.key(algorithm, Redacted.value(key))))
    return { newest: keys[0].name, keys: ring, readAt } satisfies KeyRing
  })
  const [ring, forget] = yield* Effect.cachedInvalidateWithTTL(
    readRing,
    (exit) => Exit.isSuccess(exit) ? lifetime : Duration.zero
  )

  const keyOf = Effect.fnUntraced(function*(name: string) {
    const { keys, readAt } = yield* ring
    const known = keys.get(name)
    if (known !== undefined || (yield* monotonicMillis) - readAt < leastAge) return known
    yield* forget
    return (yield* ring).keys.get(name)
  })

  const seal = Effect.fnUntraced(function*(text: string, context: ReadonlyArray<unknown>) {
    const { keys, newest } = yield* ring
    const nonce = yield* random.randomBytes(algorithm.nonceLength)
    const sealed = yield* Effect.orDie(
      aead.encrypt(keys.get(newest)!, encoder.encode(padded(text)), { nonce, aad: additional(context) })
    )
    return Base64Url.encode(Bytes.concat([Result.getOrThrow(Hex.decode(newest)), nonce, sealed]))
  })

  const open = Effect.fnUntraced(function*(token: string, context: ReadonlyArray<unknown>) {
    const bytes = Result.getOrNull(Base64Url.decode(token))
    const start = nameLength + algorithm.nonceLength
    // The decoder ignores the last bits and line breaks: each token has one form.
    if (bytes === null || bytes.length < start || Base64Url.encode(bytes) !== token) return null
    const key = yield* keyOf(Hex.encode(bytes.subarray(0, nameLength)))
    if (key === undefined) return null
    const opened = yield* Effect.option(
      aead.decrypt(key, bytes.subarray(start), { nonce: bytes.subarray(nameLength, start), aad: additional(context) })
    )
    return opened._tag === "None" ? null : decoder.decode(opened.value).trimEnd()
  })

  return { seal, open }
})
