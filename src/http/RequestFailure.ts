/** Describes failed requests for logs, without the request. */
import type * as Cause from "effect/Cause"
import * as HttpClientError from "effect/http/HttpClientError"
import * as Predicate from "effect/Predicate"

/** The deepest wrapper of an error that is read. Errors may be circular. */
export const maxErrorDepth = 8

/** Reads a member of a thrown value. Undefined if there is none, or if reading it throws: it may be a getter. */
export const readMember = (value: unknown, name: string): unknown => {
  try {
    return Predicate.hasProperty(value, name) ? value[name] : undefined
  } catch {
    return undefined
  }
}

/** The code of a failed system call, which may be wrapped several times. */
const findCode = (error: unknown, depth = 0): string | undefined => {
  if (depth > maxErrorDepth || error === undefined || error === null) return undefined
  const code = readMember(error, "code")
  if (typeof code === "string" && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code
  const aggregated = error instanceof AggregateError ? findCode(error.errors[0], depth + 1) : undefined
  return aggregated ?? findCode(readMember(error, "cause"), depth + 1)
}

/** Codes of OpenSSL, as Node names them: the settings of TLS are wrong, or the handshake or the connection failed. */
export const isTlsFailure = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) =>
    reason._tag !== "Interrupt" &&
    /^ERR_O?SSL_/.test(findCode(reason._tag === "Fail" ? reason.error : reason.defect) ?? "")
  )

/** What the codes of sockets and of undici mean, for operators. Others are told by their kind and code. */
const meanings: ReadonlyMap<string | undefined, string> = new Map([
  ["ECONNREFUSED", "the connection was refused"],
  ["ECONNRESET", "the connection was reset before the whole answer arrived"],
  ["EPIPE", "the connection closed before the whole answer arrived"],
  ["UND_ERR_SOCKET", "the connection closed before the whole answer arrived"],
  ["ETIMEDOUT", "no connection was made in time"],
  ["UND_ERR_CONNECT_TIMEOUT", "no connection was made in time"],
  ["UND_ERR_HEADERS_TIMEOUT", "no answer arrived in time"],
  ["UND_ERR_BODY_TIMEOUT", "the answer was not complete in time"]
])

/**
 * Describes a failed request by what happened and its code, such as "the connection was refused (ECONNREFUSED)", or by its kind and code,
 * such as "the request failed (TransportError, EPROTO)". It never quotes the message of an error, which may contain the URL, and never the
 * request.
 */
export const describeFailure = (cause: Cause.Cause<unknown>): string => {
  for (const reason of cause.reasons) {
    if (reason._tag === "Interrupt") continue
    const error = reason._tag === "Fail" ? reason.error : reason.defect
    const code = findCode(error)
    const meaning = meanings.get(code)
    if (meaning !== undefined) return `${meaning} (${code})`
    const isClientError = reason._tag === "Fail" && HttpClientError.isHttpClientError(error)
    const kind = isClientError ? error.reason._tag : "unexpected error"
    return `the request failed (${code === undefined ? kind : `${kind}, ${code}`})`
  }
  return "the request was interrupted"
}
