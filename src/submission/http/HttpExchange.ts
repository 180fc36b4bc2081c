/**
 * One request and its answer: one attempt, without redirects, within deadlines.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { concat, isJson } from "../../http/JsonBody.ts"
import type { HttpAnswer } from "./HttpDecoding.ts"
import { describeFailure, provesNothingSent } from "./HttpFailure.ts"
import { type ClosableSendGate, SendGate } from "./SendGate.ts"

/** What an exchange may cost. */
export interface ExchangeLimits {
  /** From the start of the request to the end of the head of the response, the connecting included. */
  readonly headers: Duration.Duration
  /** From there to the end of the body. */
  readonly body: Duration.Duration
  /** Bytes of a body. */
  readonly bodySize: number
}

/** There is no answer. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  /**
   * `not_sent`: proof that no byte left. `network`: the provider did not answer, or not to the end. `answer`: it did,
   * in a way that means nothing.
   */
  readonly failure: "not_sent" | "network" | "answer"
  /** Names no credential, no payload and no URL. */
  readonly reason: string
  /** When there was at least the head of an answer. */
  readonly status: number | null
}> {}

const text = Duration.format

const readBody = (response: HttpClientResponse.HttpClientResponse, { body, bodySize }: ExchangeLimits) => {
  const { status } = response
  let size = 0
  return response.stream.pipe(
    Stream.tap((chunk) => {
      size += chunk.length
      return size > bodySize
        ? Effect.fail(new NoAnswer({ failure: "answer", reason: `a body of more than ${bodySize} bytes`, status }))
        : Effect.void
    }),
    Stream.runCollect,
    Effect.timeoutOrElse({
      duration: body,
      orElse: () =>
        Effect.fail(
          new NoAnswer({ failure: "network", reason: `the body was not complete within ${text(body)}`, status })
        )
    }),
    Effect.map((chunks) => concat(chunks, size))
  )
}

/** An empty body is one only if the answer says so: else it may be the rest of one that was cut off. */
const parseBody = (
  { headers, status }: HttpClientResponse.HttpClientResponse,
  bytes: Uint8Array
): Effect.Effect<Schema.Json, NoAnswer> => {
  if (status === 204 || bytes.length === 0 && headers["content-length"] === "0") return Effect.succeed(null)
  const garbage = (reason: string) => new NoAnswer({ failure: "answer", reason: `status ${status}, ${reason}`, status })
  if (!isJson(headers["content-type"])) return Effect.fail(garbage("the content type is not JSON"))
  return Effect.try({
    try: () => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Schema.Json,
    catch: () => garbage("the body is not JSON")
  })
}

/** The client's middleware may have followed a redirect, which changes the method of most requests. */
const checkHead = (
  request: HttpClientRequest.HttpClientRequest,
  { request: { method }, status }: HttpClientResponse.HttpClientResponse
): Effect.Effect<void, NoAnswer> => {
  if (status >= 200 && status < 300 && method === request.method) return Effect.void
  if (status >= 400 && status < 600 && method === request.method) return Effect.void
  const reason = status >= 300 && status < 400 || method !== request.method ? "a redirect" : "not a final status"
  return Effect.fail(new NoAnswer({ failure: "answer", reason: `status ${status}, ${reason}`, status }))
}

/** What of the failure of a client is an answer is already known as such. The rest is the network's, or worse. */
const toNoAnswer = (cause: Cause.Cause<unknown>, status: number | null): NoAnswer => {
  const known = cause.reasons.find(Cause.isFailReason)?.error
  return known instanceof NoAnswer ? known : new NoAnswer({
    failure: status === null && provesNothingSent(cause) ? "not_sent" : "network",
    reason: describeFailure(cause),
    status
  })
}

const noBytes = Effect.succeed(new Uint8Array(0))

const sendRequest = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  { headers }: ExchangeLimits
) =>
  Effect.suspend(() => HttpClient.withScope(client).execute(request)).pipe(
    Effect.timeoutOrElse({
      duration: headers,
      orElse: () =>
        Effect.fail(
          new NoAnswer({ failure: "network", reason: `no response within ${text(headers)}`, status: null })
        )
    }),
    Effect.catchCause((cause) => Effect.fail(toNoAnswer(cause, null)))
  )

const readResponse = (
  request: HttpClientRequest.HttpClientRequest,
  response: HttpClientResponse.HttpClientResponse,
  limits: ExchangeLimits
): Effect.Effect<HttpAnswer, NoAnswer> =>
  Effect.suspend(() => checkHead(request, response)).pipe(
    // Some clients fail at the body of a response that can have none.
    Effect.andThen(Effect.suspend(() => response.status === 204 ? noBytes : readBody(response, limits))),
    Effect.flatMap((bytes) => parseBody(response, bytes)),
    Effect.map((body) => ({ status: response.status, headers: response.headers, body })),
    Effect.catchCause((cause) => Effect.fail(toNoAnswer(cause, response.status)))
  )

/** Closing the scope aborts what is still under way, also when the fiber is interrupted. */
const attempt = (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  limits: ExchangeLimits
): Effect.Effect<HttpAnswer, NoAnswer> =>
  Effect.scoped(
    Effect.flatMap(sendRequest(client, request, limits), (response) => readResponse(request, response, limits))
  )

/** A client that watches the gate knows better than anything that can be read from its failures. */
const withGate = (
  { failure, reason, status }: NoAnswer,
  gate: ClosableSendGate,
  wasRepeated: boolean
): NoAnswer => {
  const notSent = (reason: string) => new NoAnswer({ failure: "not_sent", reason, status })
  const maybeSent = () => new NoAnswer({ failure: failure === "not_sent" ? "network" : failure, reason, status })
  switch (gate.close()) {
    case "at_rest":
      return notSent(reason)
    case "late":
      return notSent("send_before passed before the first byte left")
    case "gone":
      return maybeSent()
    case "unwatched":
      return failure === "not_sent" && !wasRepeated ? notSent(reason) : maybeSent()
  }
}

/**
 * Sends a request and reads its answer. `credentialHeaders` are shown as redacted by those who log requests.
 *
 * Interruption aborts the request.
 */
export const exchange = Effect.fnUntraced(function*(
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest,
  limits: ExchangeLimits,
  gate: ClosableSendGate,
  credentialHeaders: ReadonlyArray<string>
) {
  const context = yield* Effect.context<never>()
  const redacted = Context.get(context, Headers.CurrentRedactedNames)
  const init = Context.getOrUndefined(context, FetchHttpClient.RequestInit)
  let attempts = 0
  // Every attempt of a client asks whether to trace it: never, because its span would bear the URL, with all that may
  // stand in it. A second attempt ends here, before it has made a connection.
  const isUntraced = () => {
    if (++attempts > 1) throw new Error("the HTTP client must not repeat a request")
    return true
  }
  return yield* attempt(client, request, limits).pipe(
    Effect.ensuring(Effect.sync(() => gate.close())),
    Effect.mapError((failure) => withGate(failure, gate, attempts > 1)),
    Effect.provideService(SendGate, gate),
    Effect.provideService(HttpClient.TracerDisabledWhen, isUntraced),
    // Else they would not ask.
    Effect.provideService(Tracer.DisablePropagation, false),
    Effect.provideService(Headers.CurrentRedactedNames, [...redacted, ...credentialHeaders]),
    // fetch follows redirects unless it is told not to.
    Effect.provideService(FetchHttpClient.RequestInit, { ...init, redirect: "manual", cache: "no-store" })
  )
})
