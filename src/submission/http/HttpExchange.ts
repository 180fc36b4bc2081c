/** Sends one request to a provider and reads its answer: in one attempt, without redirects, within deadlines. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { withinTime } from "../../http/exchangeLimits.ts"
import { parseJson, readBody, requireJsonType } from "../../http/JsonExchange.ts"
import { fetchInit } from "../../http/OutgoingRequest.ts"
import { describeFailure, isTlsFailure, maxErrorDepth, readMember } from "../../http/RequestFailure.ts"
import { type HttpAnswer, retryAfterOf, withRetryAfter } from "./HttpDecoding.ts"
import { type ClosableSendDeadline, SendDeadline } from "./SendDeadline.ts"

/** An HTTP client whose requests end with the scope: `HttpClient.withScope`. */
export type ScopedHttpClient = HttpClient.HttpClient.With<HttpClientError.HttpClientError, Scope.Scope>

export interface ExchangeLimits {
  /** From the start of the request to the end of the response head; connecting counts. */
  readonly headers: Duration.Duration
  /** From the end of the response head to the end of the body. */
  readonly body: Duration.Duration
  readonly bodySize: number
}

export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  /**
   * `not_sent`: it is proven that no byte left. `misconfigured`: the same, and the provider is not the cause: an operator
   * repairs it, or this process was too late. `network`: no answer, or only a part of one, arrived. `answer`: an answer
   * arrived that the adapter cannot use.
   */
  readonly failure: "not_sent" | "misconfigured" | "network" | "answer"
  /** For logs. Contains no credential, no payload and no URL. */
  readonly reason: string
  /** Status of the response; null if not even its head arrived. */
  readonly status: number | null
  /** For how long the answer asks to send nothing. */
  readonly retryAfter?: Duration.Duration
  /** TLS failed. If no byte had left, the handshake failed, or the settings of TLS are wrong. */
  readonly isTls?: boolean
}> {}

const format = Duration.format

const unusable = (reason: string, status: number) => new NoAnswer({ failure: "answer", reason, status })

/**
 * The whole body at once, which costs less than a stream, if the response declares that it is small. HTTP ends a body at its declared
 * length. A compressed one may be longer when the client has decompressed it.
 */
const wholeOrStream = (
  { arrayBuffer, headers, stream }: HttpClientResponse.HttpClientResponse,
  bodySize: number
) =>
  Number(headers["content-length"] ?? Infinity) <= bodySize && headers["content-encoding"] === undefined
    ? Effect.map(arrayBuffer, (bytes) => new Uint8Array(bytes))
    : readBody(stream, bodySize)

const readBytes = (response: HttpClientResponse.HttpClientResponse, { body, bodySize }: ExchangeLimits) => {
  const { status } = response
  return withinTime(wholeOrStream(response, bodySize), {
    duration: body,
    orElse: () =>
      Effect.fail(
        new NoAnswer({ failure: "network", reason: `the body was not complete within ${format(body)}`, status })
      )
  }).pipe(Effect.catchTag("InvalidBody", ({ reason }) => Effect.fail(unusable(reason, status))))
}

/**
 * Parses the body. An empty body counts as complete only if the response declares it, by status 204 or `Content-Length: 0`.
 * Any other empty body may have been cut off.
 */
const parseBody = (
  { headers, status }: HttpClientResponse.HttpClientResponse,
  bytes: Uint8Array
): Effect.Effect<Schema.Json, NoAnswer> => {
  if (status === 204 || bytes.length === 0 && headers["content-length"] === "0") return Effect.succeed(null)
  return requireJsonType(headers["content-type"]).pipe(
    Effect.andThen(parseJson(bytes)),
    Effect.mapBoth({
      onSuccess: (body) => body as Schema.Json,
      onFailure: ({ reason }) => unusable(`status ${status}, ${reason}`, status)
    })
  )
}

/**
 * Refuses redirects and statuses that are not final. A different method shows that middleware of the client followed a
 * redirect, because most redirects change it.
 */
const checkHead = (
  request: HttpClientRequest.HttpClientRequest,
  { request: { method }, status }: HttpClientResponse.HttpClientResponse
): Effect.Effect<void, NoAnswer> => {
  if (status >= 200 && status < 300 && method === request.method) return Effect.void
  if (status >= 400 && status < 600 && method === request.method) return Effect.void
  const reason = status >= 300 && status < 400 || method !== request.method ? "a redirect" : "not a final status"
  return Effect.fail(unusable(`status ${status}, ${reason}`, status))
}

const misconfigurations: Readonly<Record<Exclude<NothingSent, "unreachable">, string>> = {
  disconnected: "this machine cannot connect",
  unresolved: "the host name of the provider has no address",
  untrusted: "the certificate of the provider was refused",
  expired: "the certificate of the gateway has expired, or is not valid yet",
  invalid: "the HTTP client refused the request"
}

/**
 * Keeps a `NoAnswer`. Every other failure or defect of the client counts as `not_sent` or `misconfigured` if it proves that,
 * else `network`.
 */
const toNoAnswer = (cause: Cause.Cause<unknown>, status: number | null): NoAnswer => {
  const known = cause.reasons.find(Cause.isFailReason)?.error
  if (known instanceof NoAnswer) return known
  const proof = status === null ? whyNothingSent(cause) : null
  const reason = describeFailure(cause)
  return proof === null || proof === "unreachable"
    ? new NoAnswer({ failure: proof === null ? "network" : "not_sent", reason, status, isTls: isTlsFailure(cause) })
    : new NoAnswer({ failure: "misconfigured", reason: `${misconfigurations[proof]}: ${reason}`, status })
}

const noBytes = Effect.succeed(new Uint8Array(0))

const sendRequest = (
  client: ScopedHttpClient,
  request: HttpClientRequest.HttpClientRequest,
  { headers }: ExchangeLimits
) =>
  withinTime(Effect.suspend(() => client.execute(request)), {
    duration: headers,
    orElse: () =>
      Effect.fail(new NoAnswer({ failure: "network", reason: `no response within ${format(headers)}`, status: null }))
  }).pipe(Effect.catchCause((cause) => Effect.fail(toNoAnswer(cause, null))))

const readResponse = (
  request: HttpClientRequest.HttpClientRequest,
  response: HttpClientResponse.HttpClientResponse,
  limits: ExchangeLimits
): Effect.Effect<HttpAnswer, NoAnswer> =>
  Effect.suspend(() => checkHead(request, response)).pipe(
    // Some clients fail when they read the body of a response with status 204.
    Effect.andThen(Effect.suspend(() => response.status === 204 ? noBytes : readBytes(response, limits))),
    Effect.flatMap((bytes) =>
      Effect.map(
        parseBody(response, bytes),
        (body) => ({ status: response.status, headers: response.headers, bytes, body })
      )
    ),
    Effect.catchCause((cause) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.fail(
          new NoAnswer({ ...toNoAnswer(cause, response.status), ...withRetryAfter(retryAfterOf(response, now)) })
        ))
    )
  )

/** Corrects the failure by the state of the deadline, which proves more than the failure of a client. */
const applyDeadline = (noAnswer: NoAnswer, deadline: ClosableSendDeadline, wasRepeated: boolean): NoAnswer => {
  const { failure, isTls, reason, status } = noAnswer
  const isProven = failure === "not_sent" || failure === "misconfigured"
  const maybeSent = isProven ? new NoAnswer({ failure: "network", reason, status }) : noAnswer
  switch (deadline.close()) {
    case "at_rest":
      if (isProven) return noAnswer
      return isTls === true
        ? new NoAnswer({ failure: "misconfigured", reason: `no TLS connection could be made: ${reason}`, status })
        : new NoAnswer({ failure: "not_sent", reason, status })
    case "late":
      return new NoAnswer({ failure: "misconfigured", reason: "send_before passed before the first byte left", status })
    case "gone":
      return maybeSent
    case "unwatched":
      return isProven && !wasRepeated ? noAnswer : maybeSent
  }
}

/**
 * Sends a request and reads its answer. Logs and spans show the headers of `credentialHeaders` as redacted. Interruption
 * aborts the request.
 */
export const exchange = (
  client: ScopedHttpClient,
  request: HttpClientRequest.HttpClientRequest,
  limits: ExchangeLimits,
  deadline: ClosableSendDeadline,
  credentialHeaders: ReadonlyArray<string>
): Effect.Effect<HttpAnswer, NoAnswer> =>
  Effect.suspend(() => {
    const scope = Scope.makeUnsafe()
    let attempts = 0
    // The HTTP client calls this before each attempt. No attempt is traced, because its span would contain the URL. A second
    // attempt fails here, before it connects.
    const isUntraced = () => {
      if (++attempts > 1) throw new Error("the HTTP client must not repeat a request")
      return true
    }
    return sendRequest(client, request, limits).pipe(
      Effect.flatMap((response) => readResponse(request, response, limits)),
      Effect.onExit((exit) => {
        deadline.close()
        // Closing the scope aborts the request. After a whole body there is nothing to abort, and an abort would cost as much
        // as the body.
        return Exit.isSuccess(exit) && exit.value.status !== 204 ? Effect.void : Scope.close(scope, exit)
      }),
      Effect.mapError((failure) => applyDeadline(failure, deadline, attempts > 1)),
      Effect.updateContext((context: Context.Context<never>) =>
        context.pipe(
          Context.add(Scope.Scope, scope),
          Context.add(SendDeadline, deadline),
          Context.add(HttpClient.TracerDisabledWhen, isUntraced),
          // If propagation were disabled, the HTTP client would not call `isUntraced`.
          Context.add(Tracer.DisablePropagation, false),
          Context.add(Headers.CurrentRedactedNames, [
            ...Context.get(context, Headers.CurrentRedactedNames),
            ...credentialHeaders
          ]),
          Context.add(FetchHttpClient.RequestInit, {
            ...Context.getOrUndefined(context, FetchHttpClient.RequestInit),
            ...fetchInit
          })
        )
      )
    )
  })

/**
 * Why nothing was sent. `disconnected`: this machine can make no connection. `unresolved`: the host name has no address.
 * `untrusted`: the client refused the certificate of the server. `expired`: that of the gateway is not valid now. `invalid`:
 * the client refused the request. An operator repairs these. `unreachable`: no connection was made.
 */
type NothingSent = "disconnected" | "unresolved" | "untrusted" | "expired" | "invalid" | "unreachable"

/** System calls that run before the first byte. */
const callsBeforeSending: ReadonlyMap<unknown, NothingSent> = new Map([
  ["connect", "unreachable"],
  ["getaddrinfo", "unresolved"]
])

/** Codes of `connect` that this machine causes: no route, no file descriptor, no port, no memory, or a rule of its firewall. */
const localCodes: ReadonlySet<unknown> = new Set(
  "ENETUNREACH ENETDOWN EMFILE ENFILE EADDRNOTAVAIL ENOBUFS EACCES EPERM".split(" ")
)

/** Codes of failures that happen before the first byte, in any system call. */
const codesBeforeSending: ReadonlyMap<unknown, NothingSent> = new Map([
  ["ENOTFOUND", "unresolved"],
  ["EAI_AGAIN", "unresolved"],
  ["UND_ERR_CONNECT_TIMEOUT", "unreachable"],
  // Of `ProviderHttpClient`.
  ["GATEWAY_CERT_NOT_VALID", "expired"],
  // The client refused the server's certificate, and writes no request on such a connection. These are Node's names of
  // OpenSSL's X509_V_ERR_*, and of Node's own check of the host name.
  ...`
    ERR_TLS_CERT_ALTNAME_INVALID CERT_HAS_EXPIRED CERT_NOT_YET_VALID CERT_REJECTED CERT_REVOKED
    CERT_UNTRUSTED CERT_SIGNATURE_FAILURE CERT_CHAIN_TOO_LONG DEPTH_ZERO_SELF_SIGNED_CERT HOSTNAME_MISMATCH
    INVALID_CA INVALID_PURPOSE SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY UNABLE_TO_VERIFY_LEAF_SIGNATURE
  `.trim().split(/\s+/).map((code): [string, NothingSent] => [code, "untrusted"])
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
