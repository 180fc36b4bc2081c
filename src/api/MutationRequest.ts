/**
 * What endpoints that take financial requests have in common, for the applications that have such endpoints: the request
 * binding, as it stands in the `Idempotency-Key` header, and the answer.
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { IdempotencyKey } from "../domain/Idempotency.ts"
import { Operation } from "../domain/Operation.ts"
import { responses } from "./Problems.ts"

/** Lower case, as headers are looked up. */
export const idempotencyKeyHeader = "idempotency-key"

const isIdempotencyKey = Schema.is(IdempotencyKey)

/** A string of RFC 9651 §3.3.3, without parameters. */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/** What is neither a quoted string nor a list of keys, nor bears parameters. */
const plain = /^[^",;\\]+$/

/**
 * The key that the header names, or null when it names none. The draft (draft-ietf-httpapi-idempotency-key-header, §2.1)
 * demands a string of structured fields, `"8e03978e"`; most clients send it without the quotes, as Stripe taught them to.
 * Both are read, and mean the same key.
 */
export const parseIdempotencyKey = (header: string): IdempotencyKey | null => {
  const text = header.trim()
  const key = quoted.exec(text)?.[1]?.replaceAll(/\\(.)/g, "$1") ?? (plain.test(text) ? text : null)
  return isIdempotencyKey(key) ? key : null
}

/** The key of the request at hand. */
export class CurrentKey extends Context.Service<CurrentKey, IdempotencyKey>()(
  "financial-agents-gateway/api/CurrentKey"
) {}

/**
 * Demands what every financial request has, before its body is looked at: an idempotency key, a body that is announced
 * as JSON and is no longer than 64 KiB, and no query.
 */
export class MutationRequest extends HttpApiMiddleware.Service<MutationRequest, { provides: CurrentKey }>()(
  "financial-agents-gateway/api/MutationRequest",
  {
    error: [
      responses.badRequest,
      responses.payloadTooLarge,
      responses.unprocessableContent,
      responses.idempotencyKeyRequired,
      responses.unsupportedMediaType
    ]
  }
) {}

/** For the `headers` of an endpoint behind `MutationRequest`, so that its description and its client know the key. */
export const mutationHeaders = {
  [idempotencyKeyHeader]: Schema.String.annotate({
    description:
      "Names this piece of work: the same for every repetition of the request, for ever. A string of structured "
      + "fields (RFC 9651 §3.3.3), or the same without quotes; 1 to 255 visible ASCII characters."
  })
}

/**
 * 202, for the first request and for every repetition alike: the operation as it is now, where to read it, and after how
 * many seconds. There is no `retry-after` once the state is final.
 */
export const AcceptedOperation = HttpApiSchema.WithHeaders(Operation.pipe(HttpApiSchema.status(202)), {
  location: Schema.String.annotate({ description: "Where to read the operation." }),
  "retry-after": Schema.optionalKey(
    Schema.Int.annotate({ description: "Seconds to wait before the first read. Absent once the state is final." })
  )
})
export type AcceptedOperation = typeof AcceptedOperation.Type

/** What accepting can fail with, for the `error` of an endpoint. Its middleware declares the rest. */
export const acceptanceErrors = [
  responses.unauthorized,
  responses.forbidden,
  responses.unprocessableContent,
  responses.serviceUnavailable,
  responses.idempotencyKeyReused
] as const
