/**
 * How payloads lie in the database while they wait for submission: as they are, or encrypted.
 */
import * as Bytes from "effect/Bytes"
import * as Context from "effect/Context"
import * as Aead from "effect/crypto/Aead"
import type * as CryptoError from "effect/crypto/CryptoError"
import * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { OperationId } from "../domain/Operation.ts"
import { PayloadUnreadable } from "../domain/Submission.ts"

/** A payload as it is stored, and the name of the key that encrypts it; null when it is not encrypted. */
export interface SealedPayload {
  readonly key_id: string | null
  readonly payload: Uint8Array
}

/** The name of a key, as people give it. */
export const PayloadKeyId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9._~-]{1,64}$/u, { expected: "1 to 64 letters, digits or ._~-" })
)

/** A key of 256 bits by its name. Rows name it with a fingerprint: a wrong key of the same name reads nothing. */
export interface PayloadKey {
  readonly id: string
  readonly key: Redacted.Redacted<Uint8Array>
}

interface PayloadCipherShape {
  /** What rows say of the keys that are at hand. Workers leave payloads alone that others encrypted. */
  readonly keyIds: ReadonlyArray<string>
  /** Encrypts for one operation: the result cannot be moved to another. */
  readonly seal: (id: OperationId, payload: Uint8Array) => Effect.Effect<SealedPayload>
  readonly open: (id: OperationId, sealed: SealedPayload) => Effect.Effect<Uint8Array, PayloadUnreadable>
}

const plain: PayloadCipherShape = {
  keyIds: [],
  seal: (_, payload) => Effect.succeed({ key_id: null, payload }),
  open: (_, { key_id, payload }) => key_id === null ? Effect.succeed(payload) : Effect.fail(new PayloadUnreadable())
}

const encoder = new TextEncoder()

/**
 * Stores payloads in the clear unless `layerAesGcm` is provided, to the ledger that accepts and to the worker that
 * submits.
 */
export const PayloadCipher: Context.Reference<PayloadCipherShape> = Context.Reference(
  "financial-agents-gateway/services/PayloadCipher",
  { defaultValue: () => plain }
)

/**
 * AES-256-GCM (NIST SP 800-38D), with a random nonce in front of each payload and the operation's id as additional
 * data. The first key encrypts, all of them decrypt: to rotate, put a new key in front, and take the old one away when
 * no row names it any more. What was stored in the clear stays readable. A key is good for 2^32 payloads.
 *
 * Fails when a key is not 32 bytes long.
 */
export const layerAesGcm = (
  keys: readonly [PayloadKey, ...ReadonlyArray<PayloadKey>]
): Layer.Layer<never, CryptoError.CryptoError, Aead.Aead | Digest.Digest | SecureRandom.SecureRandom> =>
  Layer.effect(
    PayloadCipher,
    Effect.gen(function*() {
      const aead = yield* Aead.Aead
      const random = yield* SecureRandom.SecureRandom
      const imported = new Map<string, Aead.Key>()
      for (const key of keys) {
        imported.set(yield* namedInRows(key), yield* Aead.key(Aead.aes256Gcm, Redacted.value(key.key)))
      }
      const key_id = yield* namedInRows(keys[0])
      const { nonceLength } = Aead.aes256Gcm

      const seal = Effect.fnUntraced(function*(id: OperationId, payload: Uint8Array) {
        const nonce = yield* random.randomBytes(nonceLength)
        const sealed = yield* aead.encrypt(imported.get(key_id)!, payload, { nonce, aad: encoder.encode(id) })
        return { key_id, payload: Bytes.concat([nonce, sealed]) }
      }, Effect.orDie)

      const open = Effect.fnUntraced(function*(id: OperationId, sealed: SealedPayload) {
        if (sealed.key_id === null) return sealed.payload
        const key = imported.get(sealed.key_id)
        if (key === undefined) return yield* new PayloadUnreadable()
        return yield* aead.decrypt(key, sealed.payload.subarray(nonceLength), {
          nonce: sealed.payload.subarray(0, nonceLength),
          aad: encoder.encode(id)
        })
      }, Effect.catchTag("CryptoError", () => Effect.fail(new PayloadUnreadable())))

      return { keyIds: [...imported.keys()], seal, open }
    })
  )

/** The name and 32 bits of a digest: enough to tell keys apart, and nothing to find one by. */
const namedInRows = Effect.fnUntraced(function*({ id, key }: PayloadKey) {
  const digests = yield* Digest.Digest
  const digest = yield* digests.digest(Digest.sha256, Redacted.value(key))
  return `${id}~${Hex.encode(digest.subarray(0, 4))}`
})
