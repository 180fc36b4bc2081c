/**
 * A typed client of the gateway, for Node, browsers and other runtimes with an Effect `HttpClient`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { Api } from "./Api.ts"
import { type ClientOptions, isRetryable, makeClient, repeatAfterAdvice } from "./ApiClient.ts"
import type { ListQuery, OperationList } from "./OperationsApi.ts"
import type { Problem } from "./Problems.ts"

export type { ClientOptions }

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
    Layer.effect(GatewayClient, make(options))
}

const make = Effect.fnUntraced(function*(options: ClientOptions) {
  const api = yield* makeClient(Api, options)

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
    repeatAfterAdvice(
      known === null ? read(id, null) : Effect.delay(read(id, known), `${known.retryAfter} seconds`),
      isRetryable
    )

  const watch = (id: OperationId): Stream.Stream<Operation, ClientError> =>
    Stream.paginate(null as Reading | null, (known) =>
      Effect.map(readNext(id, known), (reading) =>
        [
          reading.etag === known?.etag ? [] : [reading.operation],
          reading.operation.terminal ? Option.none() : Option.some<Reading | null>(reading)
        ] as const))

  return GatewayClient.of({ list, listAll, get, watch })
})
