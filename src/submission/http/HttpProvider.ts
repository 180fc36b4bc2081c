/**
 * The base of adapters for providers that speak JSON over HTTP: what is left to say for each is how its requests look
 * and what its answers mean.
 *
 * - **One attempt.** No redirect is followed and nothing is repeated. The operation's id is the idempotency key.
 * - **Proof or doubt.** `NotSent` is proof that no byte of the request left: the adapter failed before it sent, the
 *   connection was never made, or the client watched the first byte (`ProviderHttpClient` does) and kept it. Every other
 *   failure, every defect, and every answer that is not declared is `Uncertain`.
 * - **Silence.** Reasons, spans and logs name no credential, no payload and no URL.
 *
 * Use `ProviderHttpClient` on Node. Other clients must be bare: one that retries, follows redirects, caches or hedges
 * sends what this adapter never sees, and no care taken here can mend that. Where it can be noticed (middleware of
 * Effect's `HttpClient` that repeats a submission), the repetition fails before it is sent, and the outcome is
 * `Uncertain`. `fetch` by its standard repeats a request that is answered by 421. A `FetchHttpClient.RequestInit` that
 * was given to the layer of the client is not heard, because redirects have to be turned off for each request.
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
import { namesNothing, NotSent, Provider, StatusAnswer, type SubmissionAnswer, Uncertain } from "../Provider.ts"
import { byStatus, type Decode, evidenceOf, firstOf, type HttpAnswer, NotUnderstood, onBody } from "./HttpDecoding.ts"
import { exchange, type ExchangeLimits, NoAnswer } from "./HttpExchange.ts"
import {
  encodeStatusRead,
  encodeSubmission,
  type HttpCredentials,
  type HttpHeaders,
  type HttpStatusRead,
  type HttpSubmission,
  NotEncodable,
  parseBaseUrl
} from "./HttpRequest.ts"
import { makeSendGate } from "./SendGate.ts"

export { byStatus, type Decode, evidenceOf, firstOf, type HttpAnswer, type HttpCredentials, NotUnderstood, onBody }

/** What an adapter has to say of its provider. */
export interface HttpProviderOptions {
  /** Where the provider is, such as `https://api.bank.example/v2`. Without user, query or fragment. */
  readonly baseUrl: string | URL
  /**
   * Headers that prove to the provider on whose behalf a request is made, found by the operation's owner and provider
   * binding. A failure before a submission is `NotSent`. Takes at most the deadline for headers.
   */
  readonly credentials?: (operation: ProviderOperation) => Effect.Effect<HttpCredentials, unknown>
  readonly submit: {
    readonly request: (operation: ProviderOperation, payload: Schema.Json) => HttpSubmission
    /**
     * What an answer means. A status that is not declared is uncertain, 4xx and 429 and 503 too: declare as `Rejected`
     * what the provider documents as refused for ever, and fail with `NotSent` where it documents that it did nothing.
     */
    readonly decode: Decode<SubmissionAnswer, NotSent | Uncertain>
  }
  readonly status: {
    readonly request: (operation: ProviderOperation, reference: ProviderReference | null) => HttpStatusRead
    /**
     * What an answer means. `NotProven` with `not_found` is what `notFoundIsFinalAfter` applies to; a 404 that is not
     * declared counts as not found and is never final, because anything between here and there may answer so.
     * Ask by the operation's id or by its reference, and give as `names` what the body says of either.
     */
    readonly decode: Decode<StatusAnswer>
  }
  /** Header that bears the operation's id in submissions. Default: `Idempotency-Key`. */
  readonly idempotencyKeyHeader?: string
  /** Header that bears, in submissions, `send_before` in RFC 3339. Default: none is sent. */
  readonly sendBeforeHeader?: string
  /**
   * Default: 20 seconds from the start of a request to the head of the response, and 10 from there to its end. How long
   * connecting may take is the client's to say.
   */
  readonly deadlines?: { readonly headers?: Duration.Input; readonly body?: Duration.Input }
  /** Bytes of a response's body; more is no answer. Default: 1 MiB. */
  readonly maxBodySize?: number
  /**
   * The consistency window that the provider documents: an operation that it does not know so long after the last
   * moment at which it can have been sent was never received. Add the greatest difference of the clocks. Default: there
   * is no such window, and "not found" proves nothing.
   */
  readonly notFoundIsFinalAfter?: Duration.Input
}

/** What the adapter failed at before it had anything to send. */
class NotPrepared extends Data.TaggedError("NotPrepared")<{ readonly reason: string; readonly isPermanent?: true }> {}

interface Adapter {
  readonly options: HttpProviderOptions
  readonly client: HttpClient.HttpClient
  readonly baseUrl: string
  readonly limits: ExchangeLimits
}

const seconds = Duration.seconds

const makeAdapter = (client: HttpClient.HttpClient, options: HttpProviderOptions): Adapter => ({
  options,
  client,
  baseUrl: parseBaseUrl(options.baseUrl),
  limits: {
    headers: Duration.fromInputUnsafe(options.deadlines?.headers ?? seconds(20)),
    body: Duration.fromInputUnsafe(options.deadlines?.body ?? seconds(10)),
    bodySize: options.maxBodySize ?? 1024 * 1024
  }
})

/** Whatever goes wrong before there is a request, nothing was sent. What went wrong may tell too much to be repeated. */
const prepare = <A>(what: string, effect: Effect.Effect<A, unknown>): Effect.Effect<A, NotPrepared> =>
  Effect.catchCause(effect, (cause) => {
    const known = cause.reasons.map((reason) => "error" in reason ? reason.error : null)
      .find((error) => error instanceof NotEncodable)
    return Effect.fail(new NotPrepared({ reason: known === undefined ? what : `${what}: ${known.reason}` }))
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

/** Decoders are the adapter's own: whatever goes wrong in one, the outcome is open, and the details are not for logs. */
const understand = <A, E extends NotSent | Uncertain = never>(
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
      if (reason?._tag !== "Fail" || others.length > 0) return unclear(`status ${status}, whose decoding failed`)
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
        // Other credentials may do later, and no others do where it fails without any.
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
      return yield* understand(options.submit.decode, answer, adapter)
    },
    Effect.catchTags({
      NotPrepared: ({ isPermanent, reason }) =>
        Effect.fail(new NotSent({ reason, isLocal: true, ...isPermanent === true ? { isPermanent } : {} })),
      NoAnswer: ({ failure, reason }) =>
        Effect.fail(failure === "not_sent" ? new NotSent({ reason }) : new Uncertain({ reason }))
    })
  )

/** Statuses by which a gateway says that it could not reach whom it stands for (RFC 9110 §15.6). */
const gatewayStatuses: ReadonlySet<number | null> = new Set([502, 503, 504])

const notProven = ({ failure, reason, status }: NoAnswer): StatusAnswer => {
  if (status === 404) return StatusAnswer.NotProven({ reason: "not_found", detail: reason, names: namesNothing })
  const unreachable = failure !== "answer" || gatewayStatuses.has(status)
  return StatusAnswer.NotProven({ reason: unreachable ? "unreachable" : "unclear", detail: reason })
}

/** `askedAt` is the start of the read: what the provider knew is at least as new. */
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
      const status = yield* understand(options.status.decode, answer, adapter)
      return orNeverReceived(status, answer, askedAt, operation, options.notFoundIsFinalAfter)
    },
    Effect.catchTags({
      NotPrepared: ({ reason }) => Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: reason })),
      NoAnswer: (failure) => Effect.succeed(notProven(failure))
    }),
    Effect.catchDefect(() =>
      Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: "an unexpected failure" }))
    )
  )

/** The adapter. Dies when the base URL is none. */
export const make = (options: HttpProviderOptions): Effect.Effect<Provider["Service"], never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (client) => {
    const adapter = makeAdapter(client, options)
    return Provider.of({ submit: submit(adapter), readStatus: readStatus(adapter) })
  })

/** The adapter as the `Provider` of an application. */
export const layer = (options: HttpProviderOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(options))
