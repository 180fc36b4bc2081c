/**
 * What the failure of an HTTP client proves: that no byte of the request left, or nothing.
 *
 * The clients wrap what the sockets of Node say: undici as it is, fetch in a `TypeError`, several addresses of a host in
 * an `AggregateError`. Only what is known here is believed: everything else may have happened after the first byte.
 */
import * as Cause from "effect/Cause"
import * as HttpClientError from "effect/http/HttpClientError"
import * as Predicate from "effect/Predicate"

/** System calls that come before the first byte. */
const callsBeforeSending: ReadonlySet<unknown> = new Set(["connect", "getaddrinfo"])

/** Codes of failures that come before the first byte, whatever the system call. */
const codesBeforeSending: ReadonlySet<unknown> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  // The server's certificate was refused: no request is written on such a connection. OpenSSL's X509_V_ERR_*, as
  // Node names them, and Node's own check of the host's name.
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "CERT_UNTRUSTED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_CHAIN_TOO_LONG",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE"
])

/** Reading a member of what was thrown may run code, and fail. */
const member = (value: unknown, key: string): unknown => {
  try {
    return Predicate.hasProperty(value, key) ? value[key] : undefined
  } catch {
    return undefined
  }
}

/** The wrappers that add nothing to the failure that they wrap. */
const wrapped = (error: unknown): unknown =>
  error instanceof TypeError && error.message === "fetch failed" ? error.cause : undefined

const isBeforeSending = (error: unknown, depth = 0): boolean => {
  if (depth > 8) return false
  if (callsBeforeSending.has(member(error, "syscall")) || codesBeforeSending.has(member(error, "code"))) return true
  if (error instanceof AggregateError) {
    return error.errors.length > 0 && error.errors.every((one) => isBeforeSending(one, depth + 1))
  }
  const inner = wrapped(error)
  return inner !== undefined && isBeforeSending(inner, depth + 1)
}

const reasonProves = (reason: HttpClientError.HttpClientErrorReason): boolean => {
  switch (reason._tag) {
    case "InvalidUrlError":
    case "EncodeError":
      return true
    case "TransportError":
      return isBeforeSending(reason.cause)
    default:
      return false
  }
}

/** Whether the failure of a client proves that no byte of the request left. */
export const provesNothingSent = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.length > 0
  && cause.reasons.every((reason) =>
    Cause.isFailReason(reason) && HttpClientError.isHttpClientError(reason.error) && reasonProves(reason.error.reason)
  )

const findCode = (error: unknown, depth = 0): string | undefined => {
  if (depth > 8 || error === undefined || error === null) return undefined
  const code = member(error, "code")
  if (typeof code === "string" && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code
  const aggregated = error instanceof AggregateError ? findCode(error.errors[0], depth + 1) : undefined
  return aggregated ?? findCode(member(error, "cause"), depth + 1)
}

/**
 * What to tell of the failure of a client: its kind and its code. Never its message, which may name the URL, and never
 * the request.
 */
export const describeFailure = (cause: Cause.Cause<unknown>): string => {
  const reason = cause.reasons.find((reason) => !Cause.isInterruptReason(reason))
  if (reason === undefined || Cause.isInterruptReason(reason)) return "the client gave up"
  const error = Cause.isFailReason(reason) ? reason.error : reason.defect
  const code = findCode(error)
  const kind = Cause.isFailReason(reason) && HttpClientError.isHttpClientError(error) ? error.reason._tag : "defect"
  return code === undefined ? `the client failed (${kind})` : `the client failed (${kind}, ${code})`
}
