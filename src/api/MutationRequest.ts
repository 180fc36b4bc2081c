/**
 * The common contract of mutation endpoints, for the applications that have them: the `Idempotency-Key` header, which
 * is part of the request binding, and the answer.
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { IdempotencyKey } from "../domain/Idempotency.ts"
import { Operation } from "../domain/Operation.ts"
import { acceptedExample } from "./OperationsApi.ts"
import { problems, refusedGrants } from "./Problems.ts"

/** The name of the header, in lower case, as headers are looked up. */
export const idempotencyKeyHeader = "idempotency-key"

const isIdempotencyKey = Schema.is(IdempotencyKey)

/** A string of RFC 9651 §3.3.3, without parameters. */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/

/** A key without quotes: no quoted string, no list of keys, no parameters. */
const plain = /^[^",;\\]+$/

/**
 * Reads the key of the header; null if the header is invalid. The draft (draft-ietf-httpapi-idempotency-key-header,
 * §2.1) requires a string of structured fields, `"8e03978e"`. Most clients send it without quotes, as for Stripe. Both
 * forms mean the same key.
 *
 * @internal
 */
export const parseIdempotencyKey = (header: string): IdempotencyKey | null => {
  const text = header.trim()
  const key = quoted.exec(text)?.[1]?.replaceAll(/\\(.)/g, "$1") ?? (plain.test(text) ? text : null)
  return isIdempotencyKey(key) ? key : null
}

/** The idempotency key of the current request. */
export class CurrentKey extends Context.Service<CurrentKey, IdempotencyKey>()(
  "financial-agents-gateway/api/CurrentKey"
) {}

/**
 * Checks a financial request before its body is decoded. The request must have an idempotency key, a body of JSON with
 * at most 64 KiB, and no query unless the endpoint declares one.
 */
export class MutationRequest extends HttpApiMiddleware.Service<MutationRequest, { provides: CurrentKey }>()(
  "financial-agents-gateway/api/MutationRequest",
  {
    error: problems("idempotency_key_required", "unsupported_media_type", "invalid_request", "request_timeout")
  }
) {}

/** The `headers` of an endpoint behind `MutationRequest`: its description and its client then include the key. */
export const mutationHeaders = {
  [idempotencyKeyHeader]: Schema.String.annotate({
    description:
      "Names this piece of work: the same for every repetition of the request, for ever. A string of structured "
      + "fields (RFC 9651 §3.3.3), or the same without quotes; 1 to 255 visible ASCII characters."
  })
}

/** The name of the header that marks the answer to a repetition, in lower case. Its only value is `true`, as for Stripe. @internal */
export const idempotentReplayedHeader = "idempotent-replayed"

/**
 * 202, for the first request and for every repetition: the current operation, where to read it, and after how many
 * seconds. There is no `retry-after` once the state is final. Answers to repetitions have `idempotent-replayed`.
 */
export const AcceptedOperation = HttpApiSchema.WithHeaders(
  Operation.annotateKey({
    examples: [acceptedExample]
  }).pipe(HttpApiSchema.status(202)),
  {
    location: Schema.String.annotate({ description: "Where to read the operation." }),
    "retry-after": Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
        description: "Seconds to wait before the first read. Absent once the state is final."
      })
    ),
    [idempotentReplayedHeader]: Schema.optionalKey(
      Schema.Literal("true").annotate({
        description: "The request was recorded before, and this is its operation. Absent if this request was the first."
      })
    )
  }
)
export type AcceptedOperation = typeof AcceptedOperation.Type

/** The problems of an acceptance, for the `error` of an endpoint. Its middleware declares the other problems. */
export const acceptanceErrors = problems(...refusedGrants, "idempotency_key_reused")
