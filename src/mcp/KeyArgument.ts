/**
 * An idempotency key as an argument of a tool.
 */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { parseIdempotencyKey } from "../api/MutationEndpoint.ts"
import { IdempotencyKey } from "../domain/Idempotency.ts"

const withoutQuotes = (key: IdempotencyKey): IdempotencyKey =>
  key.startsWith("\"") ? parseIdempotencyKey(key) ?? key : key

/**
 * A key with or without the quotes that it has in the header `Idempotency-Key`. Both are the same key, as they are there: agents copy
 * keys from such headers, and another key would be another payment.
 */
export const KeyArgument = IdempotencyKey.pipe(
  Schema.decodeTo(
    Schema.toType(IdempotencyKey),
    SchemaTransformation.transform({ decode: withoutQuotes, encode: (key) => key })
  )
)
