/**
 * JSON bodies of HTTP responses, and the exchange with an authorization server: one request, and the JSON object of its response, within
 * a time and a size. Errors, logs and spans contain nothing of the request or the response.
 *
 * The room `http`: requests to other servers, for `oauth` and `submission`. Read this file first.
 */
import * as Bytes from "effect/Bytes"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Stream from "effect/Stream"
import { acceptJson, fetchInit } from "./OutgoingRequest.ts"
import { describeFailure } from "./RequestFailure.ts"

export interface JsonObject {
  readonly [name: string]: unknown
}

/** Whether a JSON value is an object. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

class InvalidBody extends Data.TaggedError("InvalidBody")<{
  /** For logs. Contains nothing of the body. */
  readonly reason: string
}> {}

/** Fails unless a `Content-Type` is JSON: `application/json`, or a type with the suffix `+json` (RFC 6839 §3.1). */
export const requireJsonType = (contentType = ""): Effect.Effect<void, InvalidBody> =>
  /^application\/(?:[\w!#$&^.+-]+\+)?json[ \t]*(?:;|$)/i.test(contentType)
    ? Effect.void
    : Effect.fail(new InvalidBody({ reason: "the content type is not JSON" }))

/** Reads a body of at most `maxSize` bytes. Stops reading and fails with `InvalidBody` when the body is larger. */
export const readBody = <E>(
  body: Stream.Stream<Uint8Array, E>,
  maxSize: number
): Effect.Effect<Uint8Array, E | InvalidBody> =>
  Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    return Stream.runForEach(body, (chunk) => {
      size += chunk.length
      chunks.push(chunk)
      return size > maxSize
        ? Effect.fail(new InvalidBody({ reason: `a body of more than ${maxSize} bytes` }))
        : Effect.void
    }).pipe(Effect.map(() => Bytes.concat(chunks)))
  })

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** Parses JSON in UTF-8. Fails with `InvalidBody` on malformed UTF-8 and on malformed JSON. */
export const parseJson = (bytes: Uint8Array): Effect.Effect<unknown, InvalidBody> =>
  Effect.try({
    try: () => JSON.parse(utf8.decode(bytes)) as unknown,
    catch: () => new InvalidBody({ reason: "the body is not JSON" })
  })

/** The authorization server sent no usable response. */
export class ServerFailure extends Data.TaggedError("ServerFailure")<{
  /** For the operator. Contains no token, no credential and nothing of the request. */
  readonly reason: string
  /** Status of the response; null if not even its head arrived. */
  readonly status: number | null
}> {
  override get message() {
    return this.reason
  }
}

/** Prefixes the reason of a failure with the issuer, for the log. */
export const withIssuer = (issuer: string, { reason, status }: ServerFailure): ServerFailure =>
  new ServerFailure({ reason: `${issuer}: ${reason}`, status })

/** The response did not arrive completely in time. */
export const timedOut = new ServerFailure({ reason: "no complete answer in time", status: null })

/**
 * Whether the failure is that of a server that is down or overloaded: 5xx, 429 or no response. With every other status a
 * healthy server refuses one request.
 */
export const isOutage = ({ status }: ServerFailure): boolean => status === null || status === 429 || status >= 500

interface JsonLimits {
  /** From the start of the request to the end of the response. */
  readonly timeout: Duration.Input
  readonly size: number
}

const parseObject = Effect.fnUntraced(
  function*({ headers, status, stream }: HttpClientResponse.HttpClientResponse, size: number) {
    if (status !== 200) return yield* new ServerFailure({ reason: `status ${status}`, status })
    yield* requireJsonType(headers["content-type"])
    const body = yield* parseJson(yield* readBody(stream, size))
    return isJsonObject(body) ? body : yield* new ServerFailure({ reason: "the body is not a JSON object", status })
  }
)

const receive = (response: HttpClientResponse.HttpClientResponse, size: number) =>
  Effect.catchTag(
    parseObject(response, size),
    "InvalidBody",
    ({ reason }) => Effect.fail(new ServerFailure({ reason, status: response.status }))
  )

/**
 * Sends a request once and reads the response. Every status but 200 is a failure, redirects too. The exchange makes no
 * span, because a span would contain what only the authorization server may see. Interruption aborts the request.
 */
export const exchangeJson = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  { size, timeout }: JsonLimits
): Effect.Effect<JsonObject, ServerFailure> =>
  Effect.suspend(() => HttpClient.withScope(client).execute(HttpClientRequest.setHeaders(request, acceptJson))).pipe(
    Effect.flatMap((response) => receive(response, size)),
    Effect.scoped,
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut) }),
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
      const error = cause.reasons.find(Cause.isFailReason)?.error
      return Effect.fail(
        error instanceof ServerFailure ? error : new ServerFailure({ reason: describeFailure(cause), status: null })
      )
    }),
    Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
    Effect.provideService(FetchHttpClient.RequestInit, fetchInit)
  )
