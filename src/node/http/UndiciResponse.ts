/**
 * A response from undici, for Effect's `HttpClient`.
 */
import * as Effect from "effect/Effect"
import * as Cookies from "effect/http/Cookies"
import * as Headers from "effect/http/Headers"
import * as HttpClientError from "effect/http/HttpClientError"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as UrlParams from "effect/http/UrlParams"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import { pipeArguments } from "effect/Pipeable"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { UndiciBody } from "./UndiciBody.ts"

/** The head of a response. undici gives names in lower case, and a repeated header as an array. */
export interface UndiciHead {
  readonly status: number
  readonly headers: Readonly<Record<string, string | Array<string> | undefined>>
}

/** A `?` at the start belongs to the data. `URLSearchParams` would remove it. */
const parseForm = (bytes: ArrayBuffer): UrlParams.UrlParams =>
  UrlParams.fromInput(
    new URLSearchParams(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes).replace(/^\?/, "%3F"))
  )

/** It does not decompress the body, and it never becomes another protocol. */
export class UndiciResponse extends Inspectable.Class implements HttpClientResponse.HttpClientResponse {
  readonly [HttpIncomingMessage.TypeId] = HttpIncomingMessage.TypeId
  readonly [HttpClientResponse.TypeId] = HttpClientResponse.TypeId
  readonly request: HttpClientRequest.HttpClientRequest
  readonly status: number
  readonly headers: Headers.Headers
  readonly remoteAddress = Option.none<string>()
  private readonly resolved: URL
  private readonly setCookie: string | Array<string> | undefined
  private readonly body: UndiciBody

  constructor(
    request: HttpClientRequest.HttpClientRequest,
    url: URL,
    { headers, status }: UndiciHead,
    body: UndiciBody
  ) {
    super()
    this.request = request
    this.status = status
    this.headers = Headers.fromInput(headers)
    this.resolved = url
    this.setCookie = headers["set-cookie"]
    this.body = body
  }

  get url(): string {
    return this.resolved.href.split("#")[0]!
  }

  get cookies(): Cookies.Cookies {
    return this.setCookie === undefined ? Cookies.empty : Cookies.fromSetCookie(this.setCookie)
  }

  get arrayBuffer(): Effect.Effect<ArrayBuffer, HttpClientError.HttpClientError> {
    return Effect.mapError(this.body.whole, this.decodeError)
  }

  get stream(): Stream.Stream<Uint8Array, HttpClientError.HttpClientError> {
    return Stream.fromPull(this.body.pull).pipe(
      Stream.ensuring(this.body.close),
      Stream.mapError(this.decodeError)
    )
  }

  get text(): Effect.Effect<string, HttpClientError.HttpClientError> {
    return Effect.map(this.arrayBuffer, (bytes) => new TextDecoder().decode(bytes))
  }

  get json(): Effect.Effect<Schema.Json, HttpClientError.HttpClientError> {
    return Effect.flatMap(this.text, (text) => this.decode(() => text === "" ? null : JSON.parse(text) as Schema.Json))
  }

  get urlParamsBody(): Effect.Effect<UrlParams.UrlParams, HttpClientError.HttpClientError> {
    return Effect.flatMap(this.arrayBuffer, (bytes) => this.decode(() => parseForm(bytes)))
  }

  get formData(): Effect.Effect<FormData, HttpClientError.HttpClientError> {
    return Effect.flatMap(this.arrayBuffer, (bytes) =>
      Effect.tryPromise({
        try: () => new Response(bytes, { headers: this.headers }).formData(),
        catch: this.decodeError
      }))
  }

  get upgrade(): Effect.Effect<never, HttpClientError.HttpClientError> {
    const { request } = this
    const description = "this client does not upgrade connections"
    return Effect.suspend(() =>
      Effect.fail(
        new HttpClientError.HttpClientError({
          reason: new HttpClientError.StatusCodeError({ request, response: this, description })
        })
      )
    )
  }

  toJSON(): unknown {
    const { request, status } = this
    return HttpIncomingMessage.inspect(this, {
      _id: "effect/http/HttpClientResponse",
      request: request.toJSON(),
      status
    })
  }

  pipe() {
    return pipeArguments(this, arguments)
  }

  private readonly decodeError = (cause: unknown) =>
    new HttpClientError.HttpClientError({
      reason: new HttpClientError.DecodeError({ request: this.request, response: this, cause })
    })

  private decode<A>(decode: () => A): Effect.Effect<A, HttpClientError.HttpClientError> {
    return Effect.try({ try: decode, catch: this.decodeError })
  }
}
