/**
 * The base of adapters for providers that use JSON over HTTP. An adapter declares its requests and the meaning of the
 * provider's answers.
 *
 * - **One attempt.** The adapter follows no redirect and repeats nothing. The operation's id is the idempotency key.
 * - **Proven or uncertain.** `NotSent` proves that no byte of the request left. Either the adapter failed before it sent, or the
 *   connection was never made, or the client (`ProviderHttpClient`) held the first byte back. Every other failure, every
 *   defect, and every undeclared answer is `Uncertain`.
 * - **No content in logs.** Reasons, spans and logs contain no credential, no payload and no URL.
 *
 * Use `ProviderHttpClient` on Node. Other clients must be bare. A client that retries, follows redirects, caches or hedges
 * sends requests that this adapter cannot see or prevent. `fetch`, by its standard, repeats a request that is answered
 * with 421. If middleware of Effect's `HttpClient` repeats a submission, the adapter detects it: the repetition fails before
 * it is sent, and the outcome is `Uncertain`. The adapter ignores a `FetchHttpClient.RequestInit` in the layer of the
 * client, because it must turn redirects off for each request.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import type { ProviderOperation, ProviderReference } from "../../domain/Submission.ts"
import { parseBaseUrl } from "../../http/parseBaseUrl.ts"
import {
  namesNothing,
  NotSent,
  ProviderAdapter,
  StatusAnswer,
  type SubmissionAnswer,
  Uncertain
} from "../ProviderAdapter.ts"
import { byStatus, type Decode, evidenceOf, firstOf, type HttpAnswer, NotUnderstood, onBody } from "./HttpDecoding.ts"
import { exchange, type ExchangeLimits, NoAnswer } from "./HttpExchange.ts"
import {
  encodeStatusRead,
  encodeSubmission,
  type HttpCredentials,
  type HttpHeaders,
  type HttpStatusRead,
  type HttpSubmission,
  NotEncodable
} from "./HttpRequest.ts"
import { makeSendGate } from "./SendGate.ts"

export { byStatus, type Decode, evidenceOf, firstOf, type HttpAnswer, type HttpCredentials, NotUnderstood, onBody }

/** Options of an adapter. */
export interface HttpProviderOptions {
  /** URL of the provider, such as `https://api.bank.example/v2`. Without user, query or fragment. */
  readonly baseUrl: string | URL
  /**
   * Finds the headers that authenticate a request to the provider, by the operation's resource owner and provider
   * connection. If it fails, a submission is `NotSent`. It has the deadline for headers.
   */
  readonly credentials?: (operation: ProviderOperation) => Effect.Effect<HttpCredentials, unknown>
  readonly submit: {
    readonly request: (operation: ProviderOperation, payload: Schema.Json) => HttpSubmission
    /**
     * Decodes an answer. An undeclared status is uncertain; 4xx, 429 and 503 are too. Declare as `Rejected` the answers
     * that the provider documents as final refusals. Fail with `NotSent` where it documents that it did nothing.
     */
    readonly decode: Decode<SubmissionAnswer, NotSent | Uncertain>
  }
  readonly status: {
    readonly request: (operation: ProviderOperation, reference: ProviderReference | null) => HttpStatusRead
    /**
     * Decodes an answer. `notFoundIsFinalAfter` applies to `NotProven` with `not_found`. An undeclared 404 counts as not
     * found and is never final, because any proxy on the way may send it. Query by the operation's id or by its
     * reference, and set `names` to the id and reference that the body names.
     */
    readonly decode: Decode<StatusAnswer>
  }
  /** Header of submissions that contains the operation's id. Default: `Idempotency-Key`. */
  readonly idempotencyKeyHeader?: string
  /** Header of submissions that contains `send_before` in RFC 3339. Default: none. */
  readonly sendBeforeHeader?: string
  /**
   * Default: 20 seconds from the start of a request to the head of the response, and 10 seconds from there to its end. The
   * client sets its own limit for connecting.
   */
  readonly deadlines?: { readonly headers?: Duration.Input; readonly body?: Duration.Input }
  /** Most bytes of a response body; a larger one is no answer. Default: 1 MiB. */
  readonly maxBodySize?: number
  /**
   * The consistency window that the provider documents. If the provider does not know an operation so long after
   * `send_before`, it never received the operation. Add the greatest difference of the clocks. Default: no window, and
   * "not found" proves nothing.
   */
  readonly notFoundIsFinalAfter?: Duration.Input
}

/** The adapter failed before it had a request to send. */
class NotPrepared extends Data.TaggedError("NotPrepared")<{ readonly reason: string; readonly isPermanent?: true }> {}

interface Adapter {
  readonly options: HttpProviderOptions
  readonly client: HttpClient.HttpClient
  readonly baseUrl: string
  readonly limits: ExchangeLimits
}

const seconds = Duration.seconds

const requireBaseUrl = (baseUrl: string | URL): string => {
  const url = parseBaseUrl(baseUrl)
  if (url !== null) return url
  // The message omits the URL, which may contain a password.
  throw new TypeError("the base URL of a provider must be http or https, without user, query and fragment")
}

const makeAdapter = (client: HttpClient.HttpClient, options: HttpProviderOptions): Adapter => ({
  options,
  client,
  baseUrl: requireBaseUrl(options.baseUrl),
  limits: {
    headers: Duration.fromInputUnsafe(options.deadlines?.headers ?? seconds(20)),
    body: Duration.fromInputUnsafe(options.deadlines?.body ?? seconds(10)),
    bodySize: options.maxBodySize ?? 1024 * 1024
  }
})

/**
 * Turns every failure and defect before there is a request into `NotPrepared`: nothing was sent. It quotes only
 * `NotEncodable`, because other errors may contain secrets.
 */
const prepare = <A>(failed: string, effect: Effect.Effect<A, unknown>): Effect.Effect<A, NotPrepared> =>
  Effect.catchCause(effect, (cause) => {
    const encoding = cause.reasons.map((reason) => "error" in reason ? reason.error : null)
      .find((error) => error instanceof NotEncodable)
    return Effect.fail(new NotPrepared({ reason: encoding === undefined ? failed : `${failed}: ${encoding.reason}` }))
  })

const findCredentials = ({ limits, options }: Adapter, operation: ProviderOperation) => {
  const { credentials } = options
  if (credentials === undefined) return Effect.succeed<HttpCredentials>({})
  return prepare(
    "no credentials",
    Effect.suspend(() => credentials(operation)).pipe(
      Effect.timeoutOrElse({ duration: limits.headers, orElse: () => Effect.fail(null) })
    )
  )
}

/**
 * Decodes an answer. If the decoder dies, exceeds its deadline or does not understand the answer, the outcome is open. The
 * reason omits the details of a defect, which may contain secrets.
 */
const decodeAnswer = <A, E extends NotSent | Uncertain = never>(
  decode: Decode<A, E>,
  answer: HttpAnswer,
  { limits }: Adapter
): Effect.Effect<A, E | NoAnswer> => {
  const { status } = answer
  const unclear = (reason: string) => Effect.fail(new NoAnswer({ failure: "answer", reason, status }))
  return Effect.suspend(() => decode(answer)).pipe(
    Effect.timeoutOrElse({ duration: limits.body, orElse: () => Effect.die(null) }),
    Effect.catchCause((cause): Effect.Effect<never, E | NoAnswer> => {
      const [reason, ...others] = cause.reasons
      if (reason?._tag !== "Fail" || others.length > 0) return unclear(`status ${status}, and decoding it failed`)
      return reason.error instanceof NotUnderstood ? unclear(reason.error.reason) : Effect.fail(reason.error as E)
    })
  )
}

const submissionHeaders = (options: HttpProviderOptions, { id, send_before }: ProviderOperation): HttpHeaders => ({
  [options.idempotencyKeyHeader ?? "Idempotency-Key"]: id,
  ...(options.sendBeforeHeader !== undefined && send_before !== null
    ? { [options.sendBeforeHeader]: DateTime.formatIso(send_before) }
    : {})
})

const submit = (adapter: Adapter) =>
  Effect.fn("HttpProvider.submit")(
    function*(operation: ProviderOperation, payload: Schema.Json) {
      yield* Effect.annotateCurrentSpan("operation.id", operation.id)
      const { baseUrl, client, limits, options } = adapter
      const notAfter = operation.send_before === null ? null : DateTime.toEpochMillis(operation.send_before)
      const credentials = yield* findCredentials(adapter, operation)
      const encode = (credentials: HttpCredentials) =>
        prepare(
          "the request cannot be encoded",
          Effect.suspend(() =>
            encodeSubmission(
              baseUrl,
              options.submit.request(operation, payload),
              credentials,
              submissionHeaders(options, operation)
            )
          )
        )
      const request = yield* encode(credentials).pipe(
        // If encoding succeeds without credentials, other credentials may work later. If not, no credentials can.
        Effect.catchTag("NotPrepared", (failure) =>
          Effect.flatMap(Effect.exit(encode({})), (exit) =>
            Effect.fail(
              Exit.isSuccess(exit) ? failure : new NotPrepared({ reason: failure.reason, isPermanent: true })
            )))
      )
      const clock = yield* Clock.Clock
      if (notAfter !== null && clock.currentTimeMillisUnsafe() >= notAfter) {
        return yield* new NotPrepared({ reason: "send_before has passed" })
      }
      const gate = makeSendGate(clock, notAfter)
      const answer = yield* exchange(client, request, limits, gate, Object.keys(credentials))
      return yield* decodeAnswer(options.submit.decode, answer, adapter)
    },
    Effect.catchTags({
      NotPrepared: ({ isPermanent, reason }) =>
        Effect.fail(new NotSent({ reason, isLocal: true, ...isPermanent === true ? { isPermanent } : {} })),
      NoAnswer: ({ failure, reason }) =>
        Effect.fail(failure === "not_sent" ? new NotSent({ reason }) : new Uncertain({ reason }))
    })
  )

/** Statuses of a gateway or proxy that could not reach its server (RFC 9110 §15.6). */
const gatewayStatuses: ReadonlySet<number | null> = new Set([502, 503, 504])

const notProven = ({ failure, reason, status }: NoAnswer): StatusAnswer => {
  if (status === 404) return StatusAnswer.NotProven({ reason: "not_found", detail: reason, names: namesNothing })
  const unreachable = failure !== "answer" || gatewayStatuses.has(status)
  return StatusAnswer.NotProven({ reason: unreachable ? "unreachable" : "unclear", detail: reason })
}

/**
 * Turns "not found" into `NeverReceived` after the consistency window. `askedAt` is the start of the read; the provider's
 * answer reflects that instant or a later one.
 */
const orNeverReceived = (
  status: StatusAnswer,
  answer: HttpAnswer,
  askedAt: DateTime.Utc,
  { send_before }: ProviderOperation,
  window: Duration.Input | undefined
): StatusAnswer => {
  if (status._tag !== "NotProven" || status.reason !== "not_found") return status
  if (window === undefined || send_before === null) return status
  return DateTime.isGreaterThan(askedAt, DateTime.addDuration(send_before, window))
    ? StatusAnswer.NeverReceived({
      names: status.names,
      evidence: {
        answer: evidenceOf(answer),
        asked_at: DateTime.formatIso(askedAt),
        send_before: DateTime.formatIso(send_before)
      }
    })
    : status
}

const readStatus = (adapter: Adapter) =>
  Effect.fn("HttpProvider.readStatus")(
    function*(operation: ProviderOperation, reference: ProviderReference | null) {
      yield* Effect.annotateCurrentSpan("operation.id", operation.id)
      const { baseUrl, client, limits, options } = adapter
      const credentials = yield* findCredentials(adapter, operation)
      const request = yield* prepare(
        "the request cannot be encoded",
        Effect.suspend(() => encodeStatusRead(baseUrl, options.status.request(operation, reference), credentials))
      )
      const askedAt = yield* DateTime.now
      const gate = makeSendGate(yield* Clock.Clock, null)
      const answer = yield* exchange(client, request, limits, gate, Object.keys(credentials))
      const status = yield* decodeAnswer(options.status.decode, answer, adapter)
      return orNeverReceived(status, answer, askedAt, operation, options.notFoundIsFinalAfter)
    },
    Effect.catchTags({
      NotPrepared: ({ reason }) => Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: reason })),
      NoAnswer: (failure) => Effect.succeed(notProven(failure))
    }),
    Effect.catchDefect(() =>
      Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: "an unexpected error" }))
    )
  )

/** Makes an adapter. Dies if the base URL is invalid. */
export const make = (
  options: HttpProviderOptions
): Effect.Effect<ProviderAdapter["Service"], never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (client) => {
    const adapter = makeAdapter(client, options)
    return ProviderAdapter.of({ submit: submit(adapter), readStatus: readStatus(adapter) })
  })

/** Provides the adapter as the `ProviderAdapter` of an application. */
export const layer = (options: HttpProviderOptions): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> =>
  Layer.effect(ProviderAdapter, make(options))
