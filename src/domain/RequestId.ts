/** The identifier that connects an HTTP response with the log lines and the trace span of its request. */
import * as Schema from "effect/Schema"

/**
 * The form of a request id (specification, "Limits"): 8 to 128 characters that are safe in a header, in a log line and in a
 * URL.
 */
const requestIdPattern = /^[A-Za-z0-9._~-]{8,128}$/u

/** The `X-Request-Id` of a request: the id of the caller if it is safe, otherwise a generated UUID. */
export const RequestId = Schema.String.check(Schema.isPattern(requestIdPattern)).pipe(Schema.brand("RequestId"))
export type RequestId = typeof RequestId.Type

/**
 * Tells whether a value received in `X-Request-Id` may be echoed. Unsafe values are replaced, never refused
 * (specification, "Endpoints").
 */
export const isRequestId = (value: unknown): value is RequestId =>
  typeof value === "string" && requestIdPattern.test(value)
