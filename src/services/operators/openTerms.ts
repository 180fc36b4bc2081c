/**
 * How operators' reads open the stored terms of operations.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ShownTerms, Terms, unreadableTerms } from "../../domain/Terms.ts"
import { PayloadCipher } from "../PayloadCipher.ts"
import { fromRow, type OperationRow } from "../sql/OperationRow.ts"

/** The columns of an operation that its terms need. */
export interface TermsRow extends OperationRow {
  readonly terms: Uint8Array | null
  readonly terms_key_id: string | null
}

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Terms))
const decoder = new TextDecoder()

/**
 * Makes the function that opens the terms of a row, in the given form. Null: the operation has none. Terms that the keys of this process
 * do not open are `unreadableTerms`.
 */
export const makeOpenTerms = Effect.map(
  PayloadCipher,
  (cipher) => (row: TermsRow, form: (terms: Terms) => ShownTerms): Effect.Effect<ShownTerms | null> => {
    const { terms: payload, terms_key_id: key_id } = row
    return payload === null
      ? Effect.succeed(null)
      : cipher.open(fromRow(row), { key_id, payload }, "terms").pipe(
        Effect.flatMap((bytes) => decode(decoder.decode(bytes))),
        Effect.match({ onSuccess: form, onFailure: () => unreadableTerms })
      )
  }
)
