/**
 * The identifier that ties one HTTP response to the log lines and the trace span of its request.
 */
import * as Schema from "effect/Schema"

/**
 * What a request id may look like (specification, "Limits"): 8 to 128 characters that are safe in a header, in a log
 * line and in a URL.
 */
export const requestIdPattern = /^[A-Za-z0-9._~-]{8,128}$/u

/** The `X-Request-Id` of a request: the caller's own when it is safe, else a generated UUID. */
export const RequestId = Schema.String.check(Schema.isPattern(requestIdPattern)).pipe(Schema.brand("RequestId"))
export type RequestId = typeof RequestId.Type

/**
 * Tells whether a value received in `X-Request-Id` may be echoed. Unsafe values are replaced, never refused
 * (specification, "Endpoints").
 */
export const isRequestId = Schema.is(RequestId)
