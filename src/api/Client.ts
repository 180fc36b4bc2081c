/**
 * Typed clients of the gateway, and of any API behind its middleware, for Node, browsers and other runtimes with an Effect `HttpClient`.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { follow, followChanges, type Known, type Prefer } from "../client/Engine.ts"
import {
  checkAccessToken,
  checkBaseUrl,
  checkWait,
  defaultWait,
  submitWithin,
  uncertainRecord
} from "../client/ReadRules.ts"
import type { ChangeToken } from "../domain/ChangeFeed.ts"
import type { IdempotencyKey } from "../domain/Idempotency.ts"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { Api } from "./Api.ts"
import { Gate } from "./Middleware.ts"
import type { ChangesQuery, GrantLimits, ListQuery, OperationChanges, OperationList } from "./OperationsApi.ts"
import type { Problem } from "./Problems.ts"
import { followed, noteRetryAfter, repeated, uncertainty } from "./RepeatedCalls.ts"

/** The address of the service, and the access token. */
export interface ClientOptions {
  /** Base URL of the service, such as `https://gateway.example`. */
  readonly baseUrl: string
  /**
   * The access token. An effect runs for each request, so that it can renew an expired token. A token that no header can carry
   * is a defect.
   */
  readonly accessToken: Redacted.Redacted<string> | Effect.Effect<Redacted.Redacted<string>>
}

const bearer = (accessToken: ClientOptions["accessToken"]) =>
  HttpApiMiddleware.layerClient(
    Gate,
    ({ next, request }) =>
      Effect.flatMap(
        Effect.isEffect(accessToken) ? accessToken : Effect.succeed(accessToken),
        (token) => {
          checkAccessToken(Redacted.value(token))
          return next(HttpClientRequest.bearerToken(request, token))
        }
      )
  )

/** A redirect is an answer that breaks the contract: `fetch` would follow it, and send the work or the read to another server. */
const followNone = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  HttpClient.transform(
    client,
    (answer) =>
      Effect.flatMap(Effect.serviceOption(FetchHttpClient.RequestInit), (init) =>
        Effect.provideService(answer, FetchHttpClient.RequestInit, {
          ...Option.getOrUndefined(init),
          redirect: "manual"
        }))
  )

/**
 * Makes typed calls from a contract: `client.payments.pay({ headers, payload })`. Each call carries the access token.
 * A problem fails the call as its class, so `Effect.catchTag("IdempotencyKeyReused", …)` handles one. Provide an
 * `HttpClient`, such as `FetchHttpClient.layer`. A redirect fails the call; another `HttpClient` must follow none by itself.
 */
export const makeClient = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  { accessToken, baseUrl }: ClientOptions
): Effect.Effect<
  HttpApiClient.Client<Groups>,
  never,
  | HttpClient.HttpClient
  | Exclude<HttpApiGroup.MiddlewareClient<Groups>, HttpApiMiddleware.ForClient<Gate>>
> =>
  HttpApiClient.make(api, {
    transformClient: (client) =>
      noteRetryAfter(followNone(HttpClient.mapRequest(client, HttpClientRequest.prependUrl(baseUrl))))
  }).pipe(Effect.provide(bearer(accessToken)))

/**
 * Submits a financial request: repeats the call after a retryable problem, and after a lost connection, when `Retry-After` and a random
 * time have passed. Each repetition is the same request with the same `Idempotency-Key`, so the work is accepted once:
 *
 *     submit(client.payments.pay({ headers: { "idempotency-key": key }, payload }))
 *
 * Choose the key before the first attempt, and store it: a later process repeats the request with it. The last attempt
 * begins when `within` has passed, by default one minute, and its error fails the call. An attempt without an answer for 30 seconds
 * counts as a lost connection, and fails the call with a `TimeoutError` if it was the last one.
 *
 * A problem with `submission_uncertain: false` says that no attempt of this call was recorded. After any other failure, such as an
 * `HttpClientError`, a `SchemaError` or an interruption, that is unknown: repeat the request with the same key.
 */
export const submit = <A, E, R>(
  call: Effect.Effect<A, E, R>,
  options: { readonly within?: Duration.Input } = {}
): Effect.Effect<A, E | Cause.TimeoutError, R> =>
  repeated(
    () => call,
    { within: options.within === undefined ? submitWithin : Duration.toSeconds(options.within), uncertainty },
    () => new Cause.TimeoutError(`The gateway gave no answer. ${uncertainRecord}`)
  )

/**
 * Why a call failed. A `Problem` is an answer of the gateway; `code` tells problems apart. The other errors mean that
 * there was no answer, or that it breaks the contract.
 */
type ClientError = Problem | HttpClientError.HttpClientError | Schema.SchemaError

/** The filters of the change feed. */
type ChangesFilters = Omit<ChangesQuery, "after">

/** The settings of the client. */
export interface GatewayClientOptions extends ClientOptions {
  /**
   * Seconds that a read may wait for a change, 0 to 60; 50 by default. Choose less than the time after which proxies between
   * the client and the gateway cut an idle connection. With 0 the client polls.
   */
  readonly wait?: number
}

/**
 * Typed calls of the gateway, made from the contract that the server implements. Provide an `HttpClient`.
 *
 * `get`, `limits`, `list` and `listAll` send each request once. The other calls repeat their reads, and never a mutation:
 *
 * - After a retryable problem, a lost connection or a read without an answer, the read is repeated. The pause is never shorter than
 *   `Retry-After`. It has a random part, up to 1 second at first, which doubles up to 30 seconds while reads fail.
 * - Any other problem ends the call with that problem. After `grant_revoked`, `client_inactive` or `provider_disconnected`,
 *   further reads fail, too. After `change_token_expired`, start the feed anew.
 * - Reads ask the gateway to wait for a change (`Prefer: wait=50`). If it does not wait, the client polls as `Retry-After` says,
 *   and the change feed every 5 seconds.
 * - No call sets itself an end: use `Effect.timeout` or `Stream.timeout`. A limit of your `HttpClient` for one request must be
 *   longer than the wait.
 */
export class GatewayClient extends Context.Service<GatewayClient, {
  /** One page, newest first. */
  readonly list: (query?: ListQuery) => Effect.Effect<OperationList, ClientError>
  /** All matching operations, newest first. It reads each page when the stream needs it. */
  readonly listAll: (query?: Omit<ListQuery, "page_token">) => Stream.Stream<Operation, ClientError>
  readonly get: (id: OperationId) => Effect.Effect<Operation, ClientError>
  /** What remains of the limits of the grant and of its access token. */
  readonly limits: Effect.Effect<GrantLimits, ClientError>
  /**
   * The operation that this client and subject requested under an idempotency key. Null if the gateway has recorded no such
   * request so far: one that is still on its way may be recorded later. So repeat that request with the same key, and never
   * with another one.
   */
  readonly findByKey: (key: IdempotencyKey) => Effect.Effect<Operation | null, ClientError>
  /** The operation as it is, and then each change of it, until it is final. */
  readonly follow: (id: OperationId) => Stream.Stream<Operation, ClientError>
  /** The operation when it is final. An indeterminate operation may stay so for long: set a limit of your own. */
  readonly settled: (id: OperationId) => Effect.Effect<Operation, ClientError>
  /**
   * The pages of the change feed, without end. Each change is in a page at least once, and an operation is in its current state.
   * Without a token it starts at the first operation that the grant may see. Store `next_change_token` after you handled the page,
   * and pass it to resume with the same filters. A page may be empty: its token is later all the same. `has_more` is false when the
   * reader has caught up.
   */
  readonly changes: (token?: string | null, filters?: ChangesFilters) => Stream.Stream<OperationChanges, ClientError>
}>()("financial-agents-gateway/api/Client") {
  /** The client. A `wait` out of range is a defect, and so is a `baseUrl` that does not begin with `http://` or `https://`. */
  static readonly layer = (
    options: GatewayClientOptions
  ): Layer.Layer<GatewayClient, never, HttpClient.HttpClient> => Layer.effect(GatewayClient, make(options))
}

const make = Effect.fnUntraced(function*(options: GatewayClientOptions) {
  const baseUrl = yield* Effect.sync(() => checkBaseUrl(options.baseUrl))
  const wait = yield* Effect.sync(() => checkWait(options.wait ?? defaultWait))
  const api = yield* makeClient(Api, { ...options, baseUrl })

  const list = (query: ListQuery = {}) => Effect.map(api.operations.list({ query }), ({ body }): OperationList => body)

  const listAll = (query: Omit<ListQuery, "page_token"> = {}) =>
    Stream.paginate(undefined as string | undefined, (page_token) =>
      Effect.map(
        list(page_token === undefined ? query : { ...query, page_token }),
        (page) =>
          [
            page.operations,
            Option.map(Option.fromNullishOr(page.next_page_token), (token) => token as string | undefined)
          ] as const
      ))

  /** Reads an operation that may be known already. A 304 has no body. */
  const read = (id: OperationId, known: Known<Operation> | null, prefer: Prefer) =>
    Effect.map(
      api.operations.get({
        params: { id },
        headers: known === null ? {} : { ...prefer, "if-none-match": known.etag }
      }),
      ({ body, headers }) => ({
        operation: body,
        etag: headers.etag,
        applied: headers["preference-applied"],
        retryAfter: headers["retry-after"]
      })
    )

  const readChanges = (query: ChangesQuery, prefer: Prefer) =>
    Effect.map(
      api.operations.changes({ query, headers: prefer }),
      ({ body, headers }) => ({ page: body, applied: headers["preference-applied"] })
    )

  const followOperation = (id: OperationId): Stream.Stream<Operation, ClientError> =>
    followed(
      wait,
      (following, run) => follow(following, (known, prefer, signal) => run(read(id, known, prefer), signal))
    )

  return GatewayClient.of({
    list,
    listAll,
    // Without a tag the gateway answers with the operation.
    get: (id) => Effect.map(read(id, null, {}), ({ operation }) => operation!),
    limits: Effect.map(Effect.suspend(() => api.operations.limits()), ({ body }) => body),
    findByKey: (key) =>
      Effect.map(repeated(() => list({ idempotency_key: key }), {}), ({ operations: [operation = null] }) => operation),
    follow: followOperation,
    // The stream ends with a final operation, or fails.
    settled: (id) => Effect.map(Stream.runLast(followOperation(id)), Option.getOrThrow),
    changes: (token = null, filters = {}) =>
      followed(wait, (following, run) =>
        followChanges(following, token, (after, prefer, signal) =>
          // The encoding of the query checks the token.
          run(readChanges(after === null ? filters : { ...filters, after: after as ChangeToken }, prefer), signal)))
  })
})
