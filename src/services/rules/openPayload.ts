/** How both ledgers open what they store sealed: a payload before it is sent, and the terms for people. */
import * as Digest from "effect/crypto/Digest"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import { identity } from "effect/Function"
import * as Schema from "effect/Schema"
import { canonicalDigest } from "../../domain/Idempotency.ts"
import type { OperationId } from "../../domain/Operation.ts"
import { PayloadAltered, PayloadUnreadable } from "../../domain/Submission.ts"
import { type ShownTerms, Terms, unreadableTerms } from "../../domain/Terms.ts"
import { PayloadCipher, type SealedPayload } from "../PayloadCipher.ts"

/** The payload of a claimed operation, and the members of the operation that it must match. */
interface StoredPayload {
  readonly id: OperationId
  readonly type: string
  readonly created_at: DateTime.Utc
  /** The digest of the accepted request, in hexadecimal. */
  readonly request_digest: string
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

const decodeTerms = Schema.decodeUnknownEffect(Schema.fromJsonString(Terms))

/**
 * Makes the function that opens the terms of an operation, in the given form. Null: the operation has none. Terms that the keys of this
 * process do not open are `unreadableTerms`.
 */
export const makeOpenTerms = Effect.map(
  PayloadCipher,
  (cipher) =>
  (
    operation: Parameters<typeof cipher.open>[0],
    sealed: SealedPayload | null,
    form: (terms: Terms) => ShownTerms = identity
  ): Effect.Effect<ShownTerms | null> =>
    sealed === null
      ? Effect.succeed(null)
      : cipher.open(operation, sealed, "terms").pipe(
        Effect.flatMap((bytes) => decodeTerms(decoder.decode(bytes))),
        Effect.match({ onSuccess: form, onFailure: () => unreadableTerms })
      )
)
