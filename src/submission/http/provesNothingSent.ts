/**
 * Recognizes the failures of HTTP clients that prove that no byte of the request left.
 *
 * The errors of Node's sockets arrive as they are from undici, and in a `TypeError` from `fetch`. For a host with several
 * addresses, they arrive in an `AggregateError`. Every other failure may have happened after the first byte.
 */
import * as Cause from "effect/Cause"
import * as HttpClientError from "effect/http/HttpClientError"
import { maxErrorDepth, readMember } from "../../http/RequestFailure.ts"

/** System calls that run before the first byte. */
const callsBeforeSending: ReadonlySet<unknown> = new Set(["connect", "getaddrinfo"])

/** Codes of failures that happen before the first byte, in any system call. */
const codesBeforeSending: ReadonlySet<unknown> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  // The client refused the server's certificate, and writes no request on such a connection. These are Node's names of
  // OpenSSL's X509_V_ERR_*, and of Node's own check of the host name.
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

/** The error inside a wrapper of `fetch`. Other wrappers may stand for more than the error inside them. */
const unwrapFetch = (error: unknown): unknown =>
  error instanceof TypeError && error.message === "fetch failed" ? error.cause : undefined

const isBeforeSending = (error: unknown, depth = 0): boolean => {
  if (depth > maxErrorDepth) return false
  if (callsBeforeSending.has(readMember(error, "syscall")) || codesBeforeSending.has(readMember(error, "code"))) {
    return true
  }
  if (error instanceof AggregateError) {
    return error.errors.length > 0 && error.errors.every((one) => isBeforeSending(one, depth + 1))
  }
  const inner = unwrapFetch(error)
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

/** Whether the failure of an HTTP client proves that no byte of the request left. */
export const provesNothingSent = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.length > 0
  && cause.reasons.every((reason) =>
    Cause.isFailReason(reason) && HttpClientError.isHttpClientError(reason.error) && reasonProves(reason.error.reason)
  )
