/**
 * The base of adapters for HTTP providers that take JSON or forms, and answer with JSON. An adapter declares its requests and the meaning
 * of the provider's answers.
 *
 * The room `submission/http`: the base of adapters for HTTP providers. Read this file first.
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
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import type { PayloadSchemas } from "../../domain/PayloadSchemas.ts"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { loopbackHosts, parseBaseUrl } from "../../http/OutgoingRequest.ts"
import {
  FenceAnswer,
  NotSent,
  ProviderAdapter,
  SendDeadline,
  type SubmissionAnswer,
  Uncertain
} from "../providers/ProviderAdapter.ts"
import { checkPromises, readKind } from "../providers/ProviderPromises.ts"
import {
  type Adapter,
  type AnyOptions,
  ask,
  defaultKeyHeader,
  gatewayStatuses,
  goesOn,
  inSpan,
  notProven,
  ofOwner,
  submissionHeaders,
  unexpected
} from "./HttpCall.ts"
import { byStatus, type Decode, onBody, refusedForNow, withRetryAfter, wrongCredentials } from "./HttpDecoding.ts"
import type { NoAnswer } from "./HttpExchange.ts"
import { type NotPrepared, preparePayload, preparePermission } from "./HttpPreparation.ts"
import type { AnyPayloads, HttpProviderOptions } from "./HttpProviderOptions.ts"
import { encodeSubmission, encodeWithoutBody, type HttpCredentials, type HttpSubmission } from "./HttpRequest.ts"
import { checkStatusRequests, probe, readStatus, statusRequest } from "./HttpStatusReads.ts"

export {
  byStatus,
  type Decode,
  evidenceOf,
  firstOf,
  type HttpAnswer,
  KeyHolder,
  maybeUnauthorized,
  NotUnderstood,
  onBody,
  onlyAbout,
  onlyIf,
  ReadOn,
  refusedForNow,
  wrongCredentials
} from "./HttpDecoding.ts"
export type { HttpProviderOptions, StatusRead } from "./HttpProviderOptions.ts"
export { form, type RedactedBody } from "./HttpRequest.ts"
export {
  declareOrder,
  errorList,
  type ErrorListOptions,
  noEntry,
  notFound,
  onlyEntry,
  type OrderAnswers,
  type OrderOptions,
  refusal,
  refusedFor,
  repairable,
  uncertain,
  undecided,
  wrongEndpoint
} from "./OrderAnswers.ts"

const seconds = Duration.seconds

const requireBaseUrl = (baseUrl: string | URL): string => {
  const url = parseBaseUrl(baseUrl)
  if (url !== null) return url
  // The message omits the URL, which may contain a password.
  throw new TypeError("the base URL of a provider must be http or https, without user, query and fragment")
}

const makeAdapter = (client: HttpClient.HttpClient, options: AnyOptions): Adapter => {
  checkPromises(options.promises, options)
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

/** A declared answer below 500 shows that the provider works, also if it proves nothing about the operation. */
const answeredWith = (status: number) => <E extends { readonly _tag: string }>(failure: E): E | Uncertain =>
  failure instanceof Uncertain && failure.isUndeclared !== true && status < 500
    ? new Uncertain({ ...failure, isAnswer: true })
    : failure

const submit = (adapter: Adapter) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation, payload: Schema.Json) {
      const { baseUrl, options } = adapter
      const decoded = yield* adapter.payloadOf(operation, payload)
      yield* preparePermission(options.isPermitted, operation, decoded, adapter.limits.headers)
      const encode = (credentials: HttpCredentials) =>
        encodeSubmission(
          baseUrl,
          options.submit.request(operation, decoded, operation.type),
          credentials,
          submissionHeaders(options, operation),
          options.submit.sign
        )
      const decode: Decode<SubmissionAnswer, NotSent | Uncertain> = (answer) =>
        Effect.mapError(
          options.submit.decode(answer, { operation, payload: decoded as Schema.Json }),
          answeredWith(answer.status)
        )
      const notAfter = (yield* SendDeadline) ?? operation.send_before?.epochMilliseconds ?? null
      return yield* Effect.mapError(
        ask(adapter, operation, encode, decode, notAfter, decoded),
        asRefusal(options)
      )
    },
    Effect.catchTags({
      NotPrepared: ({ isForbidden, isOfOperation, reason }) =>
        Effect.fail(
          isForbidden === true
            ? new NotSent({ reason, isPermanent: true, isForbidden })
            : new NotSent({ reason, isLocal: true, ...isOfOperation === true ? { isOfOperation } : {} })
        ),
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
      // Another base URL may have other payments, and other keys. Names of headers have no case.
      keyIn: `${adapter.baseUrl} ${options.keyIn ?? (options.idempotencyKeyHeader ?? defaultKeyHeader).toLowerCase()}`,
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

/**
 * The address of a provider, without trailing slashes. A key goes without TLS to this machine alone. At the hosts of `roots` the address has no
 * path, because the adapter has all of it: there a doubled path is not found, as an unknown order is.
 */
export const requireAddress = (setting: string, address: string, roots: ReadonlyArray<string> = []): string => {
  const url = parseBaseUrl(address)
  if (url === null) {
    throw new TypeError(`${setting} must be a URL such as https://api.bank.example, without user or query`)
  }
  const { hostname, pathname, protocol } = new URL(url)
  if (pathname !== "/" && roots.includes(hostname)) throw new TypeError(`${setting} must have no path: remove it`)
  if (protocol === "https:" || loopbackHosts.has(hostname)) return url
  throw new TypeError(`${setting} must begin with https: otherwise the network could read the credentials`)
}

/** A credential that a header can carry. */
export const requireSecret = (setting: string, secret: Redacted.Redacted<string>): Redacted.Redacted<string> => {
  if (/^[\x21-\x7e]+$/u.test(Redacted.value(secret))) return secret
  throw new TypeError(
    `${setting} must be set, and have visible ASCII characters alone: check it for spaces and line ends`
  )
}

/** The `credentials` of a bearer token (RFC 6750 §2.1). */
export const bearer = (token: Redacted.Redacted<string>): HttpCredentials => ({
  authorization: Redacted.make(`Bearer ${Redacted.value(token)}`)
})

/** The `credentials` of a user and a password (RFC 7617 §2), in UTF-8. Throws a `TypeError` if the user has a colon. */
export const basic = (user: string, password: Redacted.Redacted<string>): HttpCredentials => {
  if (user.includes(":")) throw new TypeError("the user of basic credentials must have no colon")
  return { authorization: Redacted.make(`Basic ${Base64.encode(`${user}:${Redacted.value(password)}`)}`) }
}

/**
 * The `credentials` of settings, or of a function that finds those of the operation: then missing or refused ones are of this operation
 * alone. `headersOf` throws a `TypeError` if the credentials cannot be right. Those of the settings are refused at the start.
 */
export const credentialsFrom = <K extends object>(
  found: K | ((operation: ProviderOperation) => Effect.Effect<K, unknown>),
  headersOf: (credentials: K) => HttpCredentials
): Pick<HttpProviderOptions, "credentialsOf"> & {
  readonly credentials: (operation: ProviderOperation) => Effect.Effect<HttpCredentials, unknown>
} => {
  if (typeof found === "function") {
    return { credentials: (operation) => Effect.map(found(operation), headersOf), credentialsOf: "operation" }
  }
  const headers = headersOf(found)
  return { credentials: () => Effect.succeed(headers), credentialsOf: "gateway" }
}

const stillWaits = FenceAnswer.NotProven({ reason: "unclear", detail: "the order of the fence is not cancelled yet" })

const otherAccount = FenceAnswer.NotProven({
  reason: "unclear",
  detail: "no fence was sent: the credentials are of another account than that of the settings"
})

const isAccount = ({ member, value }: { readonly member: string; readonly value: string }) =>
  byStatus({
    200: onBody(Schema.Record(Schema.String, Schema.Unknown), (body) => body[member] === value),
    401: wrongCredentials,
    403: wrongCredentials,
    429: refusedForNow
  })

const sendFence = (adapter: Adapter, order: HttpSubmission, decoded: unknown) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation) {
      const { baseUrl, options } = adapter
      const { cancel, checkAccount, decode } = options.fence!
      yield* preparePermission(options.isPermitted, operation, decoded, adapter.limits.headers)
      const headers = submissionHeaders(options, operation)
      const occupy = (credentials: HttpCredentials) =>
        encodeSubmission(baseUrl, order, credentials, headers, options.submit.sign)
      const encodeRead = (credentials: HttpCredentials) =>
        encodeWithoutBody(baseUrl, statusRequest(adapter, operation, null, decoded), credentials)
      const readByKey = Effect.andThen(goesOn, ask(adapter, operation, encodeRead, decode, null, decoded))
      // The later requests find or cancel the order of this one, and may leave at any time.
      const notAfter = yield* SendDeadline
      const late = "the time to send the fence has passed"
      if (checkAccount !== undefined) {
        const encode = (credentials: HttpCredentials) => encodeWithoutBody(baseUrl, checkAccount, credentials)
        const isOurs = isAccount(checkAccount)
        if (!(yield* ask(adapter, operation, encode, isOurs, notAfter, decoded, late))) return otherAccount
        yield* goesOn
      }
      let holder = yield* ask(adapter, operation, occupy, decode, notAfter, decoded, late)
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
