/**
 * The base of adapters for providers that use JSON over HTTP. An adapter declares its requests and the meaning of the
 * provider's answers.
 *
 * The room `submission/http`: the base of adapters for JSON over HTTP. Read this file first.
 *
 * - **One attempt.** The adapter follows no redirect and repeats nothing. The operation's id is the idempotency key.
 * - **Proven or uncertain.** `NotSent` proves that the provider did nothing. Either the adapter failed before it sent, or the
 *   connection was never made, or the client (`ProviderHttpClient`) held the first byte back. Or the provider answered with a
 *   refusal that `submit.decode` declares: then `isRefused` is set. Every other failure, every defect, and every undeclared
 *   answer is `Uncertain`.
 * - **Local failures wait.** `isLocal` is set if an operator can repair the cause: credentials, a payload that does not fit, a
 *   request that cannot be built, a host name without an address, a refused certificate. The reason names the cause.
 * - **No content in logs.** Reasons, spans and logs contain no credential, no payload and no URL.
 *
 * Use `ProviderHttpClient` on Node. Other clients must be bare. A client that retries, follows redirects, caches or hedges
 * sends requests that this adapter cannot see or prevent. `fetch`, by its standard, repeats a request that is answered
 * with 421. If middleware of Effect's `HttpClient` repeats a submission, the adapter detects it: the repetition fails before
 * it is sent, and the outcome is `Uncertain`. The adapter ignores a `FetchHttpClient.RequestInit` in the layer of the
 * client, because it must turn redirects off for each request.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import { ProviderConnectionId, ResourceOwner } from "../../domain/Grant.ts"
import { OperationId, OperationType } from "../../domain/Operation.ts"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import type { PayloadSchemas } from "../../domain/PayloadSchemas.ts"
import type { ProviderOperation, ProviderReference } from "../../domain/Submission.ts"
import { withinTime } from "../../http/exchangeLimits.ts"
import { parseBaseUrl } from "../../http/OutgoingRequest.ts"
import {
  FenceAnswer,
  namesNothing,
  NextRequest,
  type NotProven,
  NotSent,
  ProviderAdapter,
  SendDeadline,
  StatusAnswer,
  type SubmissionAnswer,
  Uncertain
} from "../providers/ProviderAdapter.ts"
import { asksFor, checkPromises, readKind, unaskedWithoutReference } from "../providers/ProviderPromises.ts"
import {
  byStatus,
  type Decode,
  evidenceOf,
  firstOf,
  type HttpAnswer,
  KeyHolder,
  NotUnderstood,
  onBody,
  ReadOn,
  refusedForNow,
  retryAfterOf,
  withRetryAfter,
  wrongCredentials
} from "./HttpDecoding.ts"
import { exchange, type ExchangeLimits, NoAnswer, type ScopedHttpClient } from "./HttpExchange.ts"
import { NotPrepared, prepareCredentials, preparePayload, prepareRequest } from "./HttpPreparation.ts"
import type { AnyPayloads, HttpProviderOptions, StatusRead } from "./HttpProviderOptions.ts"
import {
  encodeSubmission,
  encodeWithoutBody,
  type HttpCredentials,
  type HttpHeaders,
  type HttpStatusRead,
  type HttpSubmission,
  NotEncodable
} from "./HttpRequest.ts"
import { makeSendDeadline } from "./SendDeadline.ts"

export {
  byStatus,
  type Decode,
  evidenceOf,
  firstOf,
  type HttpAnswer,
  type HttpProviderOptions,
  KeyHolder,
  NotUnderstood,
  onBody,
  ReadOn,
  refusedForNow,
  type StatusRead,
  wrongCredentials
}

type AnyOptions = HttpProviderOptions<PayloadSchemas>

interface Adapter {
  readonly options: AnyOptions
  readonly payloadOf: ReturnType<typeof preparePayload>
  readonly client: ScopedHttpClient
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

const makeAdapter = (client: HttpClient.HttpClient, options: AnyOptions): Adapter => {
  checkPromises(options.promises, options.fence !== undefined)
  return {
    options,
    payloadOf: preparePayload(options.payloads),
    client: HttpClient.withScope(client),
    baseUrl: requireBaseUrl(options.baseUrl),
    limits: {
      headers: Duration.fromInputUnsafe(options.deadlines?.headers ?? seconds(20)),
      body: Duration.fromInputUnsafe(options.deadlines?.body ?? seconds(10)),
      bodySize: options.maxBodySize ?? 1024 * 1024
    }
  }
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
const gatewayStatuses: ReadonlySet<number | null> = new Set([502, 503, 504])

/** Says that a failure of credentials may be of one operation alone, if they are its own. */
const ofOwner = ({ credentialsOf }: AnyOptions) => credentialsOf === "operation" ? { isOfOperation: true } : {}

/** The request has left, so a decoder's `NotSent` is a refusal. */
const asRefusal =
  (options: AnyOptions) => <E extends NotSent | Uncertain | NoAnswer | NotPrepared>(failure: E): E | NotSent =>
    failure._tag === "NotSent"
      ? new NotSent({
        ...failure,
        isRefused: true,
        ...failure.reason.startsWith(pauseReasons.credentials) ? ofOwner(options) : {}
      })
      : failure

const defaultKeyHeader = "Idempotency-Key"

const submissionHeaders = (
  { idempotencyKeyHeader = defaultKeyHeader, promises: { lateRequests } }: AnyOptions,
  { id, send_before }: ProviderOperation
): HttpHeaders => ({
  [idempotencyKeyHeader]: id,
  ...(typeof lateRequests === "object" && send_before !== null
    ? { [lateRequests.header]: DateTime.formatIso(send_before) }
    : {})
})

/** As the span of `Effect.fn`, without the stack trace, which costs more than the span. */
const inSpan = (name: string) => <A, E>(call: Effect.Effect<A, E>, { id }: ProviderOperation): Effect.Effect<A, E> =>
  Effect.withSpan(call, name, { attributes: { "operation.id": id }, captureStackTrace: false })

/** The longest shown path, in UTF-16 code units. */
const longestPath = 120

/**
 * The method and the path of a request, for a 404 that the adapter does not declare. Without the query, and with an ellipsis for each
 * segment that may be an id, an account or a secret.
 */
const describeTarget = ({ method, url }: Pick<HttpClientRequest, "method" | "url">): string => {
  const segments = new URL(url).pathname.split("/").map((segment) =>
    segment.length > 40 || /\d{6}|%/.test(segment) || segment.length >= 16 && /\d/.test(segment) ? "…" : segment
  )
  return `${method} ${segments.join("/").slice(0, longestPath)}`
}

/** Adds to a 404 that the adapter does not declare which request got it: likely the address of the provider is wrong. */
const namingTarget = (request: HttpClientRequest) => <E extends NotSent | Uncertain | NoAnswer>(failure: E) =>
  failure instanceof NoAnswer && failure.failure === "answer" && failure.status === 404
    ? new NoAnswer({ ...failure, reason: `${failure.reason}: ${describeTarget(request)}` })
    : failure

/** Finds the credentials, builds the request with them, sends it before `notAfter`, and decodes the answer. */
const ask = Effect.fnUntraced(function*<A, E extends NotSent | Uncertain = never>(
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
  const credentials = yield* Effect.mapError(
    prepareCredentials(options.credentials, operation, payload, limits.headers),
    (error) => new NotPrepared({ ...error, ...ofOwner(options) })
  )
  const request = yield* prepareRequest(Effect.suspend(() => encode(credentials)))
  yield* inTime
  const answer = exchange(client, request, limits, makeSendDeadline(clock, notAfter), Object.keys(credentials))
  return yield* Effect.flatMap(answer, (given) => decodeAnswer(decode, given, limits)).pipe(
    Effect.mapError(namingTarget(request))
  )
})

const submit = (adapter: Adapter) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation, payload: Schema.Json) {
      const { baseUrl, options } = adapter
      const decoded = yield* adapter.payloadOf(operation, payload)
      const encode = (credentials: HttpCredentials) =>
        encodeSubmission(
          baseUrl,
          options.submit.request(operation, decoded, operation.type),
          credentials,
          submissionHeaders(options, operation),
          options.submit.sign
        )
      const decode: Decode<SubmissionAnswer, NotSent | Uncertain> = (answer) =>
        options.submit.decode(answer, { operation, payload: decoded as Schema.Json })
      const notAfter = (yield* SendDeadline) ?? operation.send_before?.epochMilliseconds ?? null
      return yield* Effect.mapError(
        ask(adapter, operation, encode, decode, notAfter, decoded),
        asRefusal(options)
      )
    },
    Effect.catchTags({
      NotPrepared: ({ isOfOperation, reason }) =>
        Effect.fail(new NotSent({ reason, isLocal: true, ...isOfOperation === true ? { isOfOperation } : {} })),
      NoAnswer: ({ failure, reason, retryAfter, status }) => {
        switch (failure) {
          case "not_sent":
            return Effect.fail(new NotSent({ reason }))
          case "misconfigured":
            return Effect.fail(new NotSent({ reason, isLocal: true }))
          default: {
            const isUndeclared = failure === "answer" && !gatewayStatuses.has(status)
            return Effect.fail(
              new Uncertain({
                reason,
                ...isUndeclared ? { isUndeclared } : {},
                ...isUndeclared && status === 401 && adapter.options.credentialsOf !== "operation"
                  ? { isUnauthorized: true }
                  : {},
                ...withRetryAfter(retryAfter)
              })
            )
          }
        }
      }
    }),
    inSpan("HttpProvider.submit")
  )

const notProven = (error: NotPrepared | NotSent | NoAnswer): NotProven => {
  const isUnreachable = error._tag === "NoAnswer" && (error.failure !== "answer" || gatewayStatuses.has(error.status))
  return StatusAnswer.NotProven({
    reason: isUnreachable ? "unreachable" : "unclear",
    detail: error.reason,
    ...error._tag === "NotPrepared" ? {} : withRetryAfter(error.retryAfter)
  })
}

const unexpected = () => Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: "an unexpected error" }))

/** Resources and pages that a status read visits after the first one, at most. */
const mostReadOn = 8

/** Each request of a status read or of a fence but the first waits for its own permit. */
const goesOn = Effect.flatMap(
  Effect.flatten(NextRequest),
  (mayBegin) =>
    mayBegin
      ? Effect.void
      : Effect.fail(new NotSent({ reason: "the limit of the provider lets no further request begin" }))
)

/** Reads the resources or pages that the answers name, in turn. */
const readOn = Effect.fnUntraced(function*(
  adapter: Adapter,
  operation: ProviderOperation,
  first: ReadOn,
  decodePage: Decode<StatusAnswer | ReadOn, NotSent>
) {
  let next = first
  let isList = true
  for (let count = 0; count < mostReadOn; count++) {
    const { decode = decodePage, path } = next
    isList &&= next.decode === undefined
    const encode = (credentials: HttpCredentials) => encodeWithoutBody(adapter.baseUrl, { path }, credentials)
    yield* goesOn
    const status = yield* Effect.mapError(
      ask(adapter, operation, encode, decode, null),
      (error) => error._tag === "NoAnswer" && error.status === 404 ? new NoAnswer({ ...error, status: null }) : error
    )
    if (status._tag === "NotFound") return isList ? status : StatusAnswer.NotFound({ ...status, evidence: null })
    if (status._tag !== "ReadOn") return status
    next = status
  }
  return StatusAnswer.NotProven({
    reason: "unclear",
    detail: `the state is not in the first answer, and not in the ${mostReadOn} resources or pages after it`
  })
})

/** The idempotency key in the headers of a request. Names of headers have no case. */
const keyIn = (headers: HttpHeaders, { idempotencyKeyHeader = defaultKeyHeader }: AnyOptions): string => {
  const name = idempotencyKeyHeader.toLowerCase()
  return Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1] ?? ""
}

/** The same request by a reference that no bank gives, to find the place of the reference. */
const requestByReference = (
  { status }: AnyOptions,
  operation: ProviderOperation,
  payload: unknown
): { readonly path: string; readonly reference: string } | undefined => {
  const reference = "reference-of-no-payment" as ProviderReference
  try {
    return { path: status.request(operation, reference, payload).path, reference }
  } catch {
    return undefined
  }
}

/** Builds a status request. Throws if there is no reference and it does not ask for the operation: the adapter has a mistake. */
const statusRequest = (
  { options }: Pick<Adapter, "options">,
  operation: ProviderOperation,
  reference: ProviderReference | null,
  payload: unknown
): HttpStatusRead => {
  const { promises, status } = options
  const request = status.request(operation, reference, payload)
  const mustAsk = reference === null && readKind(promises, null) === "direct" && status.isUnfiltered !== true
  const { headers = {}, path } = request
  if (!mustAsk) return request
  const byReference = requestByReference(options, operation, payload)
  if (asksFor(operation.id, { path, key: keyIn(headers, options), byReference })) return request
  throw new NotEncodable({
    reason: "a status request without a reference must contain the operation's id, in path, query or the header of the "
      + "idempotency key, and no empty place for the reference, or the adapter must promise readByOperationId \"no\""
  })
}

const readStatus = (adapter: Adapter) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation, reference: ProviderReference | null, payload?: Schema.Json) {
      const { baseUrl, options } = adapter
      if (readKind(options.promises, reference) === "none") {
        return StatusAnswer.NotProven({ reason: "unclear", detail: unaskedWithoutReference })
      }
      const decoded = payload === undefined ? null : yield* adapter.payloadOf(operation, payload)
      const encode = (credentials: HttpCredentials) =>
        encodeWithoutBody(baseUrl, statusRequest(adapter, operation, reference, decoded), credentials)
      const read = { operation, reference, payload: decoded }
      const decode: Decode<StatusAnswer | ReadOn, NotSent> = (answer) => options.status.decode(answer, read)
      const status = yield* ask(adapter, operation, encode, decode, null)
      return status._tag === "ReadOn" ? yield* readOn(adapter, operation, status, decode) : status
    },
    Effect.catch((error) =>
      Effect.succeed<StatusAnswer>(
        error._tag === "NoAnswer" && error.status === 404
          ? StatusAnswer.NotFound({ names: namesNothing, evidence: null })
          : notProven(error)
      )
    ),
    Effect.catchDefect(unexpected),
    inSpan("HttpProvider.readStatus")
  )

const stillWaits = FenceAnswer.NotProven({ reason: "unclear", detail: "the order of the fence is not cancelled yet" })

const sendFence = (adapter: Adapter, order: HttpSubmission, decoded: unknown) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation) {
      const { baseUrl, options } = adapter
      const { cancel, decode } = options.fence!
      const headers = submissionHeaders(options, operation)
      const occupy = (credentials: HttpCredentials) =>
        encodeSubmission(baseUrl, order, credentials, headers, options.submit.sign)
      const encodeRead = (credentials: HttpCredentials) =>
        encodeWithoutBody(baseUrl, statusRequest(adapter, operation, null, decoded), credentials)
      const readByKey = Effect.andThen(goesOn, ask(adapter, operation, encodeRead, decode, null, decoded))
      // The later requests find or cancel the order of this one, and may leave at any time.
      const notAfter = yield* SendDeadline
      let holder = yield* ask(
        adapter,
        operation,
        occupy,
        decode,
        notAfter,
        decoded,
        "the time to send the fence has passed"
      )
      if (holder._tag === "Unnamed") holder = yield* readByKey
      // An order of another operation must not be cancelled. The contradiction brings this one under review.
      if (holder._tag !== "Unnamed" && (holder.names.operation_id ?? operation.id) !== operation.id) {
        return FenceAnswer.Known(holder.names)
      }
      if (holder._tag === "Own" && !holder.isCancelled) {
        const cancellation = cancel(holder.names.reference, operation)
        const encode = (credentials: HttpCredentials) => encodeWithoutBody(baseUrl, cancellation, credentials)
        yield* goesOn
        yield* ask(adapter, operation, encode, () => Effect.void, null, decoded)
        holder = yield* readByKey
      }
      if (holder._tag === "First") return FenceAnswer.Known(holder.names)
      if (holder._tag === "Unnamed" || !holder.isCancelled) return stillWaits
      const { evidence, names } = holder
      return FenceAnswer.Occupied({ names, evidence })
    },
    Effect.catch((error) => Effect.succeed(notProven(error))),
    Effect.catchDefect(unexpected),
    inSpan("HttpProvider.fence")
  )

/** A payload that cannot be prepared has no fence: a person asks the provider. */
const fence = (adapter: Adapter, { request }: NonNullable<AnyOptions["fence"]>) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation, payload: Schema.Json) {
      const decoded = yield* adapter.payloadOf(operation, payload)
      const order = request(operation, decoded, operation.type)
      return order === null ? null : sendFence(adapter, order, decoded)(operation)
    },
    Effect.catchCause(() => Effect.succeed(null))
  )

/** An operation that no ledger has: ids begin with the time, and this one is of 1970. */
const nonexistent: Omit<ProviderOperation, "type"> = {
  id: OperationId.make("00000000-0000-7000-8000-000000000000"),
  resource_owner: ResourceOwner.make("probe"),
  provider_connection_id: ProviderConnectionId.make("00000000-0000-7000-8000-000000000000"),
  send_before: null
}

/** One for each type of payload. */
const samples = ({ payloads = {} }: AnyOptions): readonly [ProviderOperation, ...Array<ProviderOperation>] => {
  const [first = "probe", ...others] = Object.keys(payloads)
  const sample = (type: string) => ({ ...nonexistent, type: OperationType.make(type) })
  return [sample(first), ...others.map(sample)]
}

/** Tells of the mistake at the start, and not after the first lost answer. A function that fails without a payload shows none. */
const checkStatusRequests = (adapter: Adapter): void => {
  for (const operation of samples(adapter.options)) {
    try {
      statusRequest(adapter, operation, null, null)
    } catch (error) {
      if (error instanceof NotEncodable) throw new TypeError(error.reason, { cause: error })
    }
  }
}

/** Reads the status of an operation that does not exist. A 404 that the adapter does not declare is likely one of another path. */
const probe = (adapter: Adapter): Effect.Effect<string | null> => {
  const [operation] = samples(adapter.options)
  return Effect.map(readStatus(adapter)(operation, null), (status) => {
    if (status._tag !== "NotFound" || status.evidence !== null) return null
    const { path } = adapter.options.status.request(operation, null, null)
    const target = describeTarget({ method: "GET", url: adapter.baseUrl + path })
    return `a status read of an operation that does not exist got status 404, which is not declared: ${target}`
  })
}

/**
 * Makes an adapter. Dies with a `TypeError` if the base URL is invalid, if the promises cannot be safe together, or if a status request
 * without a reference does not contain the operation's id, although `readByOperationId` promises a read by it.
 */
export const make = <P extends PayloadSchemas = AnyPayloads>(
  options: HttpProviderOptions<P>
): Effect.Effect<ProviderAdapter["Service"], never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (client) => {
    // The cast: `preparePayload` decodes by the same schemas, so each function gets the payload of its type.
    const adapter = makeAdapter(client, options as unknown as AnyOptions)
    checkStatusRequests(adapter)
    const hasProbe = options.probe !== false && readKind(options.promises, null) === "direct"
    return ProviderAdapter.of({
      ...options.payloads === undefined ? {} : { payloads: options.payloads },
      ...options.failures === undefined ? {} : { failures: options.failures },
      account: options.account,
      ...options.limit === undefined ? {} : { limit: options.limit },
      promises: options.promises,
      ...options.status.needsPayload === true ? { readsNeedPayload: true } : {},
      ...options.status.isUnfiltered === true ? { readsUnfiltered: true } : {},
      submit: submit(adapter),
      readStatus: readStatus(adapter),
      ...adapter.options.fence === undefined ? {} : { fence: fence(adapter, adapter.options.fence) },
      ...hasProbe ? { probe: probe(adapter) } : {}
    })
  })

/** Provides the adapter as the `ProviderAdapter` of an application. See `make`. */
export const layer = <P extends PayloadSchemas = AnyPayloads>(
  options: HttpProviderOptions<P>
): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> => Layer.effect(ProviderAdapter, make(options))
