/**
 * How payloads lie in the database while they wait for submission: as they are, or encrypted. With keys, a payload that
 * can be read is also authentic: only a program that has a key can have written it for this operation.
 */
import * as Bytes from "effect/Bytes"
import * as Context from "effect/Context"
import * as Aead from "effect/crypto/Aead"
import type * as CryptoError from "effect/crypto/CryptoError"
import * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Operation, OperationId } from "../domain/Operation.ts"
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

export interface PayloadCipherShape {
  /** What rows say of the keys that are at hand. Workers leave payloads alone that others encrypted. */
  readonly keyIds: ReadonlyArray<string>
  /**
   * Plain text counts only if its operation was accepted before this instant, in milliseconds since 1970: `Infinity`
   * without keys. Workers leave other plain text alone.
   */
  readonly plaintextBefore: number
  /** Encrypts for one operation: the result cannot be moved to another. */
  readonly seal: (id: OperationId, payload: Uint8Array) => Effect.Effect<SealedPayload>
  readonly open: (operation: AcceptedOperation, sealed: SealedPayload) => Effect.Effect<Uint8Array, PayloadUnreadable>
}

/** What the ledger never changes of an operation, as far as its payload depends on it. */
type AcceptedOperation = Pick<Operation, "id" | "created_at">

const plain: PayloadCipherShape = {
  keyIds: [],
  plaintextBefore: Infinity,
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

/** How `layerAesGcm` treats what was stored before there were keys. */
export interface AesGcmOptions {
  /**
   * Plain text of operations that were accepted before this instant is still read. Give it while a ledger moves from clear
   * text to keys, and no longer. Default: plain text is never read, because a program that may write to the database
   * could put it in the place of a ciphertext.
   */
  readonly plaintextUntil?: DateTime.Utc
}

/**
 * AES-256-GCM (NIST SP 800-38D), with a random nonce in front of each payload and the operation's id as additional
 * data. The first key encrypts, all of them decrypt: to rotate, put a new key in front, and take the old one away when
 * no row names it any more. Plain text is refused, except what `plaintextUntil` admits. A key is good for 2^32 payloads.
 *
 * Fails when a key is not 32 bytes long.
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

      const plaintextBefore = options.plaintextUntil?.epochMilliseconds ?? -Infinity

      const open = Effect.fnUntraced(function*({ created_at, id }: AcceptedOperation, sealed: SealedPayload) {
        if (sealed.key_id === null) {
          return created_at.epochMilliseconds < plaintextBefore ? sealed.payload : yield* new PayloadUnreadable()
        }
        const key = imported.get(sealed.key_id)
        if (key === undefined) return yield* new PayloadUnreadable()
        return yield* aead.decrypt(key, sealed.payload.subarray(nonceLength), {
          nonce: sealed.payload.subarray(0, nonceLength),
          aad: encoder.encode(id)
        })
      }, Effect.catchTag("CryptoError", () => Effect.fail(new PayloadUnreadable())))

      return { keyIds: [...imported.keys()], plaintextBefore, seal, open }
    })
  )

/** The name and 32 bits of a digest: enough to tell keys apart, and nothing to find one by. */
const namedInRows = Effect.fnUntraced(function*({ id, key }: PayloadKey) {
  const digests = yield* Digest.Digest
  const digest = yield* digests.digest(Digest.sha256, Redacted.value(key))
  return `${id}~${Hex.encode(digest.subarray(0, 4))}`
})
