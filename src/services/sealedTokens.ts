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
import * as Schema from "effect/Schema"
import { StoreUnavailable } from "./StoreUnavailable.ts"

/** The values that a token is bound to: it opens with the same values alone. */
export type TokenContext = ReadonlyArray<unknown>

/** `unknown_key`: it has the form of a token, and its key is gone. `forged`: any other text, or a token for other values. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", {
  reason: Schema.Literals(["unknown_key", "forged"])
}) {}

/** A key of the ledger. */
export interface TokenKey {
  /** The name that tokens have in front: 8 hexadecimal digits. */
  readonly name: string
  /** 32 bytes. */
  readonly key: Redacted.Redacted<Uint8Array>
  /** It is older than `settledAfter`, so every process has read it. */
  readonly isSettled: boolean
}

/** The keys of a ledger, oldest first: one at least. */
type TokenKeys = readonly [TokenKey, ...ReadonlyArray<TokenKey>]

/** Each process reads the keys again after this time. */
const lifetime = Duration.minutes(1)

/** A process seals with a key only from then on, so that no other process meets a token whose key it has not read. */
export const settledAfter = Duration.minutes(2)

/** After a failure, the keys are read again after this time. */
const pause = Duration.seconds(1)

const algorithm = Aead.xchacha20Poly1305
const nameLength = 4
const start = nameLength + algorithm.nonceLength
const tagLength = 16

/** Nonces that are drawn at once. A call of the system's generator costs a third of a token. */
const batch = 64

/** Characters. The length of a token tells how many transactions were running, so it is rounded. */
const block = 64

const padded = (text: string) => text.padEnd(Math.ceil(text.length / block) * block)

const hasForm = ({ length }: Uint8Array) => {
  const sealed = length - start - tagLength
  return sealed > 0 && sealed % block === 0
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const additional = (context: TokenContext) => encoder.encode(JSON.stringify(context))

interface KeyRing {
  readonly sealing: string
  readonly keys: ReadonlyMap<string, Aead.Key>
  /** The monotonic clock, in nanoseconds. */
  readonly readAt: bigint
}

/** Makes `TokenCipher` on keys that are read when the first token is sealed or opened. */
export const makeTokenCipher = Effect.fnUntraced(function*(read: Effect.Effect<TokenKeys, StoreUnavailable>) {
  const aead = yield* Aead.Aead
  const random = yield* SecureRandom.SecureRandom
  const context = yield* Effect.context<never>()
  let known: KeyRing | null = null

  const readRing = Effect.gen(function*() {
    const readAt = yield* Clock.monotonicTimeNanos
    const found = yield* read
    const keys = new Map<string, Aead.Key>()
    for (const { key, name } of found) keys.set(name, yield* Effect.orDie(Aead.key(algorithm, Redacted.value(key))))
    const { name } = found.findLast(({ isSettled }) => isSettled) ?? found[0]
    return known = { sealing: name, keys, readAt }
  }).pipe(
    // The fiber that reads may be in a transaction of an application, and others wait for its result.
    Effect.updateContext<never, never>(() => context)
  )
  const latest = yield* Effect.cachedWithTTL(readRing, (exit) => Exit.isSuccess(exit) ? lifetime : pause)
  const ring = Effect.catch(latest, (error) => known === null ? Effect.fail(error) : Effect.succeed(known))

  /** Without the latest keys, an unknown key may be a new one. */
  const refuseUnknown = Effect.fnUntraced(function*({ readAt }: KeyRing) {
    const age = Duration.nanos((yield* Clock.monotonicTimeNanos) - readAt)
    if (Duration.isLessThan(age, settledAfter)) return yield* new TokenRefused({ reason: "unknown_key" })
    return yield* new StoreUnavailable({ cause: new Error("the keys of tokens could not be read for two minutes") })
  })

  let nonces: Uint8Array = new Uint8Array(0)
  const takeNonce = () => {
    const nonce = nonces.subarray(0, algorithm.nonceLength)
    nonces = nonces.subarray(algorithm.nonceLength)
    return nonce
  }
  const drawNonce = Effect.suspend(() =>
    nonces.length > 0
      ? Effect.succeed(takeNonce())
      : Effect.map(random.randomBytes(algorithm.nonceLength * batch), (drawn) => {
        nonces = drawn
        return takeNonce()
      })
  )

  const seal = Effect.fnUntraced(function*(text: string, context: TokenContext) {
    const { keys, sealing } = yield* ring
    const nonce = yield* drawNonce
    const sealed = yield* Effect.orDie(
      aead.encrypt(keys.get(sealing)!, encoder.encode(padded(text)), { nonce, aad: additional(context) })
    )
    return Base64Url.encode(Bytes.concat([Result.getOrThrow(Hex.decode(sealing)), nonce, sealed]))
  })

  const open = Effect.fnUntraced(function*(token: string, context: TokenContext) {
    const bytes = Result.getOrElse(Base64Url.decode(token), () => new Uint8Array())
    if (!hasForm(bytes)) return yield* new TokenRefused({ reason: "forged" })
    const current = yield* ring
    const key = current.keys.get(Hex.encode(bytes.subarray(0, nameLength)))
    if (key === undefined) return yield* refuseUnknown(current)
    const opened = yield* Effect.mapError(
      aead.decrypt(key, bytes.subarray(start), { nonce: bytes.subarray(nameLength, start), aad: additional(context) }),
      () => new TokenRefused({ reason: "forged" })
    )
    return decoder.decode(opened).trimEnd()
  })

  return { seal, open }
})
