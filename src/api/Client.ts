/**
 * A typed client of the gateway, for Node, browsers and other runtimes with an Effect `HttpClient`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { Api } from "./Api.ts"
import { Authorization } from "./Middleware.ts"
import type { ListQuery, OperationList } from "./OperationsApi.ts"
import type { Problem } from "./Problems.ts"

/** The address of the gateway, and the access token. */
export interface ClientOptions {
  /** Base URL of the gateway, such as `https://gateway.example`. */
  readonly baseUrl: string
  /** The access token. An effect runs for each request, so that it can renew an expired token. */
  readonly accessToken: Redacted.Redacted<string> | Effect.Effect<Redacted.Redacted<string>>
}

/**
 * Why a call failed. A `Problem` is an answer of the gateway; `code` tells problems apart. The other errors mean that
 * there was no answer, or that it breaks the contract.
 */
export type ClientError = Problem | HttpClientError.HttpClientError | Schema.SchemaError

/** The latest answer for an operation, and the seconds to wait before the next read. */
interface Reading {
  readonly operation: Operation
  readonly etag: string
  readonly retryAfter: number
}

/** Typed calls of the gateway, made from the contract that the server implements. Provide an `HttpClient`. */
export class GatewayClient extends Context.Service<GatewayClient, {
  /** One page, newest first. */
  readonly list: (query?: ListQuery) => Effect.Effect<OperationList, ClientError>
  /** All matching operations, newest first. It reads each page when the stream needs it. */
  readonly listAll: (query?: Omit<ListQuery, "page_token">) => Stream.Stream<Operation, ClientError>
  readonly get: (id: OperationId) => Effect.Effect<Operation, ClientError>
  /**
   * Reads an operation at the intervals that the gateway advises, and emits each change, until the operation is final.
   * After a retryable problem it waits for `Retry-After`. Other problems end the stream: with a revoked grant or a
   * disconnected provider, further reads fail, too. It does not end while an operation stays indeterminate: set a limit
   * of your own.
   */
  readonly watch: (id: OperationId) => Stream.Stream<Operation, ClientError>
}>()("financial-agents-gateway/api/Client") {
  static readonly layer = (options: ClientOptions): Layer.Layer<GatewayClient, never, HttpClient.HttpClient> =>
    Layer.effect(GatewayClient, make(options)).pipe(Layer.provide(bearer(options.accessToken)))
}

const bearer = (accessToken: ClientOptions["accessToken"]) =>
  HttpApiMiddleware.layerClient(
    Authorization,
    ({ next, request }) =>
      Effect.flatMap(
        Effect.isEffect(accessToken) ? accessToken : Effect.succeed(accessToken),
        (token) => next(HttpClientRequest.bearerToken(request, token))
      )
  )

/** Receives the seconds of `Retry-After` during a call; null if the caller does not need them. */
const Advice = Context.Reference<{ seconds: number } | null>("financial-agents-gateway/api/Client/Advice", {
  defaultValue: () => null
})

/** Notes `Retry-After` in seconds (RFC 9110 §10.2.3), the form that the gateway sends. Any other value counts as 1. */
const noteAdvice = HttpClient.tap((response) =>
  Effect.map(Advice, (advice) => {
    const text = response.headers["retry-after"] ?? ""
    if (advice !== null) advice.seconds = /^[1-9][0-9]{0,5}$/.test(text) ? Number(text) : 1
  })
)

const isRetryable = (error: ClientError): boolean => "retryable" in error && error.retryable

const make = Effect.fnUntraced(function*({ baseUrl }: ClientOptions) {
  const api = yield* HttpApiClient.make(Api, {
    transformClient: (client) => noteAdvice(HttpClient.mapRequest(client, HttpClientRequest.prependUrl(baseUrl)))
  })

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

  const read = (id: OperationId, known: Reading | null) =>
    Effect.map(
      api.operations.get({ params: { id }, headers: known === null ? {} : { "if-none-match": known.etag } }),
      ({ body, headers }): Reading => ({
        // A 304 has no body: the operation has not changed.
        operation: body ?? known!.operation,
        etag: headers.etag,
        retryAfter: headers["retry-after"] ?? 1
      })
    )

  const get = (id: OperationId) => Effect.map(read(id, null), ({ operation }) => operation)

  /** The reading after a known one. It retries retryable problems; other errors end the watch. */
  const readNext = (id: OperationId, known: Reading | null): Effect.Effect<Reading, ClientError> =>
    Effect.suspend(() => {
      const advice = { seconds: 1 }
      return Effect.catchIf(
        known === null ? read(id, null) : Effect.delay(read(id, known), `${known.retryAfter} seconds`),
        isRetryable,
        () => Effect.delay(readNext(id, known), `${advice.seconds} seconds`)
      ).pipe(Effect.provideService(Advice, advice))
    })

  const watch = (id: OperationId): Stream.Stream<Operation, ClientError> =>
    Stream.paginate(null as Reading | null, (known) =>
      Effect.map(readNext(id, known), (reading) =>
        [
          reading.etag === known?.etag ? [] : [reading.operation],
          reading.operation.terminal ? Option.none() : Option.some<Reading | null>(reading)
        ] as const))

  return GatewayClient.of({ list, listAll, get, watch })
})
