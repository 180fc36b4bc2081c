/**
 * One request to an authorization server, and the JSON object that it answers: within a time, a size, and silence.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import { concat, isJson } from "./JsonBody.ts"

/** The members of a JSON object. */
export interface JsonMembers {
  readonly [name: string]: unknown
}

/** An authorization server gave no answer that can be used. */
export class ServerFailure extends Data.TaggedError("ServerFailure")<{
  /** For the operator: it names no token, no credential and no request. */
  readonly reason: string
  /** When there was at least the head of a response. */
  readonly status: number | null
}> {
  override get message() {
    return this.reason
  }
}

/** The failure with the name of whose it is, for the log. */
export const failureOf = (issuer: string, { reason, status }: ServerFailure): ServerFailure =>
  new ServerFailure({ reason: `${issuer}: ${reason}`, status })

/** There was no answer, or only a part of one. */
export const tooLate = new ServerFailure({ reason: "no complete answer in time", status: null })

/**
 * Whether this is how servers fail that are down or overloaded: with 5xx, 429 or silence. With every other status a server
 * that is well refuses one request.
 */
export const isOutage = ({ status }: ServerFailure): boolean => status === null || status === 429 || status >= 500

/** What an exchange may cost. */
export interface JsonLimits {
  /** From the start of the request to the end of the response. */
  readonly timeout: Duration.Input
  /** Bytes of the body. */
  readonly size: number
}

const failure = (reason: string, status: number | null = null) => new ServerFailure({ reason, status })

/** The code of a failed system call, which may lie under several wrappers. Messages may name the request. */
const findCode = (error: unknown, depth = 0): string | undefined => {
  if (depth > 8 || !Predicate.isObjectKeyword(error)) return undefined
  const { cause, code } = error as { cause?: unknown; code?: unknown }
  if (typeof code === "string" && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code
  return findCode(error instanceof AggregateError ? error.errors[0] : cause, depth + 1)
}

const describe = (cause: Cause.Cause<unknown>): string => {
  const reason = cause.reasons.find((reason) => !Cause.isInterruptReason(reason))
  const error = reason === undefined || Cause.isInterruptReason(reason)
    ? undefined
    : Cause.isFailReason(reason)
    ? reason.error
    : reason.defect
  const kind = HttpClientError.isHttpClientError(error) ? error.reason._tag : "unexpected"
  const code = findCode(error)
  return `the request failed (${code === undefined ? kind : `${kind}, ${code}`})`
}

const readBody = ({ status, stream }: HttpClientResponse.HttpClientResponse, limit: number) => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  return Stream.runForEach(stream, (chunk) => {
    size += chunk.length
    chunks.push(chunk)
    return size > limit ? Effect.fail(failure(`a body of more than ${limit} bytes`, status)) : Effect.void
  }).pipe(Effect.map(() => concat(chunks, size)))
}

const parse = (bytes: Uint8Array, status: number): Effect.Effect<JsonMembers, ServerFailure> =>
  Effect.flatMap(
    Effect.try({
      try: () => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as unknown,
      catch: () => failure("the body is not JSON", status)
    }),
    (body) => isMembers(body) ? Effect.succeed(body) : Effect.fail(failure("the body is not a JSON object", status))
  )

/** Whether a JSON value is an object. */
export const isMembers = (value: unknown): value is JsonMembers =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const receive = Effect.fnUntraced(function*(response: HttpClientResponse.HttpClientResponse, size: number) {
  const { headers, status } = response
  if (status !== 200) return yield* failure(`status ${status}`, status)
  if (!isJson(headers["content-type"])) return yield* failure("the content type is not JSON", status)
  return yield* parse(yield* readBody(response, size), status)
})

/**
 * Sends a request, once, and reads the answer. Any status but 200 is a failure, redirects too. Nothing of it is traced,
 * because a span would bear what only the authorization server may see. Interruption aborts the request.
 */
export const exchangeJson = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  { size, timeout }: JsonLimits
): Effect.Effect<JsonMembers, ServerFailure> =>
  // A body that is compressed could not be limited in the same way by every client.
  Effect.suspend(() =>
    HttpClient.withScope(client).execute(
      HttpClientRequest.setHeaders(request, { accept: "application/json", "accept-encoding": "identity" })
    )
  ).pipe(
    Effect.flatMap((response) => receive(response, size)),
    Effect.scoped,
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(tooLate) }),
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
      const known = cause.reasons.find(Cause.isFailReason)?.error
      return Effect.fail(known instanceof ServerFailure ? known : failure(describe(cause)))
    }),
    Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
    // fetch follows redirects unless it is told not to.
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual", cache: "no-store" })
  )
