/**
 * One request of an adapter: credentials, encoding, deadlines, and the meaning of the answer. Submissions, status reads and fences are made
 * of such requests.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import type { PayloadSchemas } from "../../domain/PayloadSchemas.ts"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { withinTime } from "../../http/exchangeLimits.ts"
import { NextRequest, type NotProven, NotSent, StatusAnswer, type Uncertain } from "../providers/ProviderAdapter.ts"
import { type Decode, type HttpAnswer, NotUnderstood, retryAfterOf, withRetryAfter } from "./HttpDecoding.ts"
import { exchange, type ExchangeLimits, NoAnswer, type ScopedHttpClient } from "./HttpExchange.ts"
import { NotPrepared, prepareCredentials, type preparePayload, prepareRequest } from "./HttpPreparation.ts"
import type { HttpProviderOptions } from "./HttpProviderOptions.ts"
import { checkCredentials, type HttpCredentials, type HttpHeaders } from "./HttpRequest.ts"
import { makeSendDeadline } from "./SendDeadline.ts"

export type AnyOptions = HttpProviderOptions<PayloadSchemas>

export interface Adapter {
  readonly options: AnyOptions
  readonly payloadOf: ReturnType<typeof preparePayload>
  readonly client: ScopedHttpClient
  readonly baseUrl: string
  readonly limits: ExchangeLimits
}

/**
 * Decodes an answer. If the decoder dies, exceeds its deadline or does not understand the answer, the outcome is open. The
 * reason omits the details of a defect, which may contain secrets.
 */
const decodeAnswer = <A, E extends NotSent | Uncertain = never>(
  decode: Decode<A, E>,
  answer: HttpAnswer,
  limits: ExchangeLimits
): Effect.Effect<A, E | NoAnswer> => {
  const { status } = answer
  const unclear = (reason: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.fail(
        new NoAnswer({ failure: "answer", reason, status, ...withRetryAfter(retryAfterOf(answer, now)) })
      ))
  return Effect.suspend(() => withinTime(decode(answer), { duration: limits.body, orElse: () => Effect.die(null) }))
    .pipe(
      Effect.catchCause((cause): Effect.Effect<never, E | NoAnswer> => {
        const [reason, ...others] = cause.reasons
        if (reason?._tag !== "Fail" || others.length > 0) return unclear(`status ${status}, and decoding it failed`)
        return reason.error instanceof NotUnderstood ? unclear(reason.error.reason) : Effect.fail(reason.error as E)
      })
    )
}

/** Statuses of a gateway or proxy that could not reach its server (RFC 9110 §15.6): network failures. */
export const gatewayStatuses: ReadonlySet<number | null> = new Set([502, 503, 504])

/** Says that a failure of credentials may be of one operation alone, if they are its own. */
export const ofOwner = ({ credentialsOf }: AnyOptions) => credentialsOf === "operation" ? { isOfOperation: true } : {}

export const defaultKeyHeader = "Idempotency-Key"

export const submissionHeaders = (
  { idempotencyKeyHeader = defaultKeyHeader, promises: { lateRequests } }: AnyOptions,
  { id, send_before }: ProviderOperation
): HttpHeaders => ({
  [idempotencyKeyHeader]: id,
  ...(typeof lateRequests === "object" && send_before !== null
    ? { [lateRequests.header]: DateTime.formatIso(send_before) }
    : {})
})

/** As the span of `Effect.fn`, without the stack trace, which costs more than the span. */
export const inSpan =
  (name: string) => <A, E>(call: Effect.Effect<A, E>, { id }: ProviderOperation): Effect.Effect<A, E> =>
    Effect.withSpan(call, name, { attributes: { "operation.id": id }, captureStackTrace: false })

/** The longest shown path, in UTF-16 code units. */
const longestPath = 120

/**
 * The method and the path of a request, for a 404 that the adapter does not declare. Without the query, and with an ellipsis for each
 * segment that may be an id, an account or a secret.
 */
export const describeTarget = ({ method, url }: Pick<HttpClientRequest, "method" | "url">): string => {
  const segments = new URL(url).pathname.split("/").map((segment) =>
    segment.length > 40 || /\d{6}|%/.test(segment) || segment.length >= 16 && /\d/.test(segment) ? "…" : segment
  )
  return `${method} ${segments.join("/").slice(0, longestPath)}`
}

/**
 * Adds to a 404 that the adapter does not declare which request got it: likely the address of the provider is wrong. Adds to a connection
 * that was not made to which host and port.
 */
const namingTarget = (request: HttpClientRequest) => <E extends NotSent | Uncertain | NoAnswer>(failure: E) => {
  if (!(failure instanceof NoAnswer)) return failure
  const target = failure.failure === "answer" && failure.status === 404
    ? describeTarget(request)
    : failure.failure === "not_sent"
    ? new URL(request.url).host
    : null
  return target === null ? failure : new NoAnswer({ ...failure, reason: `${failure.reason}: ${target}` })
}

/** Finds the credentials, builds the request with them, sends it before `notAfter`, and decodes the answer. */
export const ask = Effect.fnUntraced(function*<A, E extends NotSent | Uncertain = never>(
  { client, limits, options }: Adapter,
  operation: ProviderOperation,
  encode: (credentials: HttpCredentials) => Effect.Effect<HttpClientRequest, unknown>,
  decode: Decode<A, E>,
  notAfter: number | null,
  payload: unknown = null,
  late = "send_before has passed"
) {
  const clock = yield* Clock.Clock
  const inTime = Effect.suspend(() =>
    notAfter !== null && clock.currentTimeMillisUnsafe() >= notAfter
      ? Effect.fail(new NotPrepared({ reason: late }))
      : Effect.void
  )
  // Credentials may need a request as well.
  yield* inTime
  const credentials = yield* prepareCredentials(options.credentials, operation, payload, limits.headers).pipe(
    Effect.tap((found) => prepareRequest(checkCredentials(found))),
    Effect.mapError((error) => new NotPrepared({ ...error, ...ofOwner(options) }))
  )
  const request = yield* prepareRequest(Effect.suspend(() => encode(credentials)))
  yield* inTime
  const answer = exchange(client, request, limits, makeSendDeadline(clock, notAfter), Object.keys(credentials))
  return yield* Effect.flatMap(answer, (given) => decodeAnswer(decode, given, limits)).pipe(
    Effect.mapError(namingTarget(request))
  )
})

export const notProven = (error: NotPrepared | NotSent | NoAnswer): NotProven => {
  const isUnreachable = error._tag === "NoAnswer" && (error.failure !== "answer" || gatewayStatuses.has(error.status))
  return StatusAnswer.NotProven({
    reason: isUnreachable ? "unreachable" : "unclear",
    detail: error.reason,
    ...error._tag === "NotPrepared" ? {} : withRetryAfter(error.retryAfter)
  })
}

export const unexpected = () =>
  Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: "an unexpected error" }))

/** Each request of a status read or of a fence but the first waits for its own permit. */
export const goesOn = Effect.flatMap(
  Effect.flatten(NextRequest),
  (mayBegin) =>
    mayBegin
      ? Effect.void
      : Effect.fail(new NotSent({ reason: "the limit of the provider lets no further request begin" }))
)
