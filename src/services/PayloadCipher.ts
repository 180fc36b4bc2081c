/**
 * Payloads in the database, in plain text or encrypted, while they wait for submission. With keys, a payload that can be read
 * is also authentic: only a program with a key can have written it for this operation.
 */
import * as Bytes from "effect/Bytes"
import * as Context from "effect/Context"
import * as Aead from "effect/crypto/Aead"
import type * as CryptoError from "effect/crypto/CryptoError"
import * as Digest from "effect/crypto/Digest"
import * as Kdf from "effect/crypto/Kdf"
import * as Mac from "effect/crypto/Mac"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { PayloadUnreadable } from "../domain/Submission.ts"

/** A payload as it is stored, and the name of the key that encrypts it. Null: plain text. */
export interface SealedPayload {
  readonly key_id: string | null
  readonly payload: Uint8Array
}

/** The name of a key, as the operator gives it. @internal */
export const PayloadKeyId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9._~-]{1,64}$/u, { expected: "1 to 64 letters, digits or ._~-" })
)

/** A key of 256 bits and its name. Rows hold the name with a fingerprint, so another key of the same name reads nothing. */
export interface PayloadKey {
  readonly id: string
  readonly key: Redacted.Redacted<Uint8Array>
}

/** What is sealed of an operation: its payload (the default), or its terms. Neither can be read in the place of the other. */
type SealedPart = "payload" | "terms"

/** Seals payloads for storage, and opens them for workers. */
export interface PayloadCipherShape {
  /** The names of the keys of this process, as rows hold them. Workers claim no payload of another key. */
  readonly keyIds: ReadonlyArray<string>
  /**
   * Workers claim plain text only if its operation was accepted before this instant, in milliseconds since 1970. It is
   * `Infinity` without keys.
   */
  readonly plaintextBefore: number
  /** Encrypts for one operation: the result cannot be read for another. */
  readonly seal: (id: OperationId, payload: Uint8Array, part?: SealedPart) => Effect.Effect<SealedPayload>
  readonly open: (
    operation: AcceptedOperation,
    sealed: SealedPayload,
    part?: SealedPart
  ) => Effect.Effect<Uint8Array, PayloadUnreadable>
  /**
   * A keyed value of a text under each key, first that of the key that encrypts: equal texts have equal values. None without keys. The
   * ledger finds operations by it whose text it stores encrypted.
   */
  readonly macs: (text: Uint8Array) => Effect.Effect<ReadonlyArray<Uint8Array>>
}

/** The members of an operation on which its payload depends. They never change. */
type AcceptedOperation = Pick<Operation, "id" | "created_at">

const plain: PayloadCipherShape = {
  keyIds: [],
  plaintextBefore: Infinity,
  seal: (_, payload) => Effect.succeed({ key_id: null, payload }),
  open: (_, { key_id, payload }) => key_id === null ? Effect.succeed(payload) : Effect.fail(new PayloadUnreadable()),
  macs: () => Effect.succeed([])
}

const encoder = new TextEncoder()

/** Tells the keys of `macs` from others that a later version may derive of the same key (HKDF, RFC 5869). */
const macInfo = encoder.encode("financial-agents-gateway index")

const additional = (id: OperationId, part: SealedPart) => encoder.encode(part === "payload" ? id : `${id} ${part}`)

/** Stores payloads in plain text by default. Provide `layerAesGcm` to the ledger that accepts and to the worker that submits. */
export const PayloadCipher: Context.Reference<PayloadCipherShape> = Context.Reference(
  "financial-agents-gateway/services/PayloadCipher",
  { defaultValue: () => plain }
)

/** How `layerAesGcm` treats payloads from the time before there were keys. */
export interface AesGcmOptions {
  /**
   * Plain text of operations that were accepted before this instant can be read. Set it only while a ledger moves from plain
   * text to keys. Default: no plain text can be read, because a program with access to the database could replace a
   * ciphertext by it.
   */
  readonly plaintextUntil?: DateTime.Utc
}

/**
 * Encrypts with AES-256-GCM (NIST SP 800-38D), with a random nonce in front of each payload and the id of the operation as
 * additional data. The first key encrypts, and all of them decrypt. `macs` are HMAC-SHA-256 under keys that HKDF derives of them. To rotate, put a new key in front, and remove the old one
 * when no row names it any more. Plain text is refused, except as `plaintextUntil` allows. Use a key for at most 2^32
 * payloads and terms together.
 *
 * Fails if a key is not 32 bytes long.
 */
export const layerAesGcm = (
  keys: readonly [PayloadKey, ...ReadonlyArray<PayloadKey>],
  options: AesGcmOptions = {}
): Layer.Layer<never, CryptoError.CryptoError, Aead.Aead | Digest.Digest | SecureRandom.SecureRandom> =>
  Layer.effect(
    PayloadCipher,
    Effect.gen(function*() {
      const aead = yield* Aead.Aead
      const random = yield* SecureRandom.SecureRandom
      const kdf = yield* Kdf.Kdf
      const mac = yield* Mac.Mac
      const macKeys: Array<Mac.Key> = []
      const imported = new Map<string, Aead.Key>()
      for (const key of keys) {
        imported.set(yield* namedInRows(key), yield* Aead.key(Aead.aes256Gcm, Redacted.value(key.key)))
        const options = { salt: new Uint8Array(), info: macInfo, length: 32 }
        macKeys.push(
          yield* Mac.key(Mac.hmacSha256, yield* kdf.derive(Kdf.hkdfSha256, Redacted.value(key.key), options))
        )
      }
      const key_id = yield* namedInRows(keys[0])
      const { nonceLength } = Aead.aes256Gcm

      const seal = Effect.fnUntraced(function*(id: OperationId, payload: Uint8Array, part: SealedPart = "payload") {
        const nonce = yield* random.randomBytes(nonceLength)
        const sealed = yield* aead.encrypt(imported.get(key_id)!, payload, { nonce, aad: additional(id, part) })
        return { key_id, payload: Bytes.concat([nonce, sealed]) }
      }, Effect.orDie)

      const plaintextBefore = options.plaintextUntil?.epochMilliseconds ?? -Infinity

      const open = Effect.fnUntraced(function*(
        { created_at, id }: AcceptedOperation,
        sealed: SealedPayload,
        part: SealedPart = "payload"
      ) {
        if (sealed.key_id === null) {
          return created_at.epochMilliseconds < plaintextBefore ? sealed.payload : yield* new PayloadUnreadable()
        }
        const key = imported.get(sealed.key_id)
        if (key === undefined) return yield* new PayloadUnreadable()
        return yield* aead.decrypt(key, sealed.payload.subarray(nonceLength), {
          nonce: sealed.payload.subarray(0, nonceLength),
          aad: additional(id, part)
        })
      }, Effect.catchTag("CryptoError", () => Effect.fail(new PayloadUnreadable())))

      const macs = (text: Uint8Array) => Effect.orDie(Effect.forEach(macKeys, (key) => mac.sign(key, text)))

      return { keyIds: [...imported.keys()], plaintextBefore, seal, open, macs }
    })
  ).pipe(Layer.provide([Kdf.layerWebCrypto, Mac.layerWebCrypto]))

/** The name and 32 bits of the digest: enough to tell keys apart, and too few to find a key. */
const namedInRows = Effect.fnUntraced(function*({ id, key }: PayloadKey) {
  const digests = yield* Digest.Digest
  const digest = yield* digests.digest(Digest.sha256, Redacted.value(key))
  return `${id}~${Hex.encode(digest.subarray(0, 4))}`
})
