/**
 * Recognizes the failures of HTTP clients that prove that no byte of the request left.
 *
 * The errors of Node's sockets arrive as they are from undici, and in a `TypeError` from `fetch`. For a host with several
 * addresses, they arrive in an `AggregateError`. Every other failure may have happened after the first byte.
 */
import * as Cause from "effect/Cause"
import * as HttpClientError from "effect/http/HttpClientError"
import { maxErrorDepth, readMember } from "../../http/RequestFailure.ts"

/**
 * Why nothing was sent. `disconnected`: this machine can make no connection. `unresolved`: the host name has no address.
 * `untrusted`: the client refused the certificate of the server. `expired`: that of the gateway is not valid now. `invalid`:
 * the client refused the request. An operator repairs these. `unreachable`: no connection was made.
 */
export type NothingSent = "disconnected" | "unresolved" | "untrusted" | "expired" | "invalid" | "unreachable"

/** System calls that run before the first byte. */
const callsBeforeSending: ReadonlyMap<unknown, NothingSent> = new Map([
  ["connect", "unreachable"],
  ["getaddrinfo", "unresolved"]
])

/** Codes of `connect` that this machine causes: no route, no file descriptor, no port, no memory, or a rule of its firewall. */
const localCodes: ReadonlySet<unknown> = new Set([
  "ENETUNREACH",
  "ENETDOWN",
  "EMFILE",
  "ENFILE",
  "EADDRNOTAVAIL",
  "ENOBUFS",
  "EACCES",
  "EPERM"
])

/** Codes of failures that happen before the first byte, in any system call. */
const codesBeforeSending: ReadonlyMap<unknown, NothingSent> = new Map([
  ["ENOTFOUND", "unresolved"],
  ["EAI_AGAIN", "unresolved"],
  ["UND_ERR_CONNECT_TIMEOUT", "unreachable"],
  // Of `ProviderHttpClient`.
  ["GATEWAY_CERT_NOT_VALID", "expired"],
  // The client refused the server's certificate, and writes no request on such a connection. These are Node's names of
  // OpenSSL's X509_V_ERR_*, and of Node's own check of the host name.
  ...[
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
  ].map((code): [string, NothingSent] => [code, "untrusted"])
])

/** The error inside a wrapper of `fetch`. Other wrappers may stand for more than the error inside them. */
const unwrapFetch = (error: unknown): unknown =>
  error instanceof TypeError && error.message === "fetch failed" ? error.cause : undefined

/** Several failures prove what each of them proves. If they differ, some address could not be connected to. */
const combine = (proofs: ReadonlyArray<NothingSent | null>): NothingSent | null => {
  const [first = null, ...others] = proofs
  if (first === null || others.includes(null)) return null
  return others.every((other) => other === first) ? first : "unreachable"
}

const findProof = (error: unknown, depth = 0): NothingSent | null => {
  if (depth > maxErrorDepth) return null
  const code = readMember(error, "code")
  const syscall = readMember(error, "syscall")
  if (syscall === "connect" && localCodes.has(code)) return "disconnected"
  const known = codesBeforeSending.get(code) ?? callsBeforeSending.get(syscall)
  if (known !== undefined) return known
  if (error instanceof AggregateError) return combine(error.errors.map((one) => findProof(one, depth + 1)))
  const inner = unwrapFetch(error)
  return inner === undefined ? null : findProof(inner, depth + 1)
}

const proofOfReason = (reason: HttpClientError.HttpClientErrorReason): NothingSent | null => {
  switch (reason._tag) {
    case "InvalidUrlError":
    case "EncodeError":
      return "invalid"
    case "TransportError":
      return findProof(reason.cause)
    default:
      return null
  }
}

/** Whether the failure of an HTTP client proves that no byte of the request left, and why. Null: it may have left. */
export const whyNothingSent = (cause: Cause.Cause<unknown>): NothingSent | null =>
  combine(
    cause.reasons.map((reason) =>
      Cause.isFailReason(reason) && HttpClientError.isHttpClientError(reason.error)
        ? proofOfReason(reason.error.reason)
        : null
    )
  )
