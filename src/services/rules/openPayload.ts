/**
 * How both submission queues open a stored payload before it is sent.
 */
import * as Digest from "effect/crypto/Digest"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type * as Schema from "effect/Schema"
import { canonicalDigest } from "../../domain/Idempotency.ts"
import type { OperationId } from "../../domain/Operation.ts"
import { PayloadAltered, PayloadUnreadable } from "../../domain/Submission.ts"
import { PayloadCipher, type SealedPayload } from "../PayloadCipher.ts"

/** The payload of a claimed operation, and the members of the operation that it must match. */
interface StoredPayload {
  readonly id: OperationId
  readonly type: string
  readonly created_at: DateTime.Utc
  /** The digest of the accepted request, in hexadecimal. */
  readonly request_digest: string
  /** Null if the row is missing. */
  readonly sealed: SealedPayload | null
}

const decoder = new TextDecoder("utf-8", { fatal: true })

const parse = (bytes: Uint8Array): Effect.Effect<Schema.Json, PayloadUnreadable> =>
  Effect.try({
    try: () => JSON.parse(decoder.decode(bytes)) as Schema.Json,
    catch: () => new PayloadUnreadable()
  })

/**
 * Makes the function that opens a payload: it decrypts, compares the digest of type and payload with that of the accepted
 * request, and parses.
 */
export const makeOpenPayload = Effect.gen(function*() {
  const cipher = yield* PayloadCipher
  const digests = yield* Digest.Digest

  return (stored: StoredPayload): Effect.Effect<Schema.Json, PayloadUnreadable | PayloadAltered> =>
    Effect.gen(function*() {
      if (stored.sealed === null) return yield* new PayloadUnreadable()
      const bytes = yield* cipher.open(stored, stored.sealed)
      const digest = yield* Effect.provideService(canonicalDigest(stored.type, bytes), Digest.Digest, digests)
      return Hex.encode(digest) === stored.request_digest ? yield* parse(bytes) : yield* new PayloadAltered()
    }).pipe(
      Effect.tapError(({ message }) =>
        Effect.annotateLogs(
          Effect.logError(`Payload refused, nothing sent: ${message}. Find out who changed the stored payload`),
          { operation_id: stored.id }
        )
      )
    )
})
