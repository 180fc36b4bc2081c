/**
 * The values by which operators find the operations of a payee, although the terms are sealed. Without the keys they tell only which
 * operations have the same payee.
 */
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import { PayloadCipher } from "../PayloadCipher.ts"

const encoder = new TextEncoder()

/** People write an IBAN with or without spaces, and names in any case. */
const normalized = (payee: string): string => payee.normalize("NFKC").replaceAll(/\s/gu, "").toLowerCase()

/** The first one is stored with a new operation. An operation of an earlier key, or of none, has one of the others. */
export const payeeIndexes = Effect.fnUntraced(function*(payee: string) {
  const { macs } = yield* PayloadCipher
  const digests = yield* Digest.Digest
  const text = encoder.encode(normalized(payee))
  return [...yield* macs(text), yield* Effect.orDie(digests.digest(Digest.sha256, text))]
})
