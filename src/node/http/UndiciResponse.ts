/**
 * A response from undici, for Effect's `HttpClient`. Its body holds a bounded number of bytes until the application reads them.
 */
import type { Dispatcher } from "@effect/platform-node/Undici"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
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
import type * as Pull from "effect/Pull"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

type Chunks = Arr.NonEmptyReadonlyArray<Uint8Array>

/** Bytes that a body holds before it stops reading from the connection. The last chunk may exceed them. */
const maxUnread = 64 * 1024

const concat = (chunks: ReadonlyArray<Uint8Array>, size: number): ArrayBuffer => {
  const all = new Uint8Array(size)
  let offset = 0
  for (const chunk of chunks) {
    all.set(chunk, offset)
    offset += chunk.length
  }
  return all.buffer
}

/**
 * undici adds the chunks, from within its parser. A reader continues in a microtask: its next request could call the parser of
 * another connection, and undici has only one.
 *
 * The body is read whole, any number of times, or once as chunks. Errors are the causes that undici or the abort gave.
 */
export class UndiciBody {
  private readonly controller: Dispatcher.DispatchController
  private chunks: Array<Uint8Array> = []
  private unread = 0
  private read: "whole" | "chunks" | undefined
  private all: ArrayBuffer | undefined
  private end: "complete" | Exit.Exit<never, unknown> | undefined
  private readonly readers = new Set<() => void>()

  constructor(controller: Dispatcher.DispatchController) {
    this.controller = controller
  }

  /** Adds a chunk. Without a reader, a full body pauses the connection. */
  add(chunk: Uint8Array): void {
    if (this.end !== undefined) return
    this.chunks.push(chunk)
    this.unread += chunk.length
    if (this.readers.size === 0) {
      if (this.unread >= maxUnread) this.controller.pause()
    } else if (this.read === "chunks") this.wakeReaders()
  }

  /** The body is complete. */
  complete(): void {
    this.end ??= "complete"
    this.wakeReaders()
  }

  /** Drops every chunk that was not read. Later reads fail with the cause. */
  fail(cause: unknown): void {
    this.end = Exit.fail(cause)
    this.chunks = []
    this.wakeReaders()
  }

  /** The whole body. It has no limit. */
  get whole(): Effect.Effect<ArrayBuffer, unknown> {
    return Effect.suspend(() => {
      if (!this.startReading("whole")) return alreadyRead
      return this.end === undefined ? Effect.flatMap(this.change, () => this.takeAll()) : this.takeAll()
    })
  }

  /** The body as chunks. Each pull that waits for a chunk resumes the connection. */
  get pull(): Effect.Effect<Pull.Pull<Chunks, unknown>, unknown> {
    return Effect.suspend(() =>
      this.read === undefined && this.startReading("chunks")
        ? Effect.succeed(Effect.suspend(() => this.takeChunks()))
        : alreadyRead
    )
  }

  /** Ends an incomplete body, because its reader needs no more of it. */
  get close(): Effect.Effect<void> {
    return Effect.sync(() => {
      if (this.end === undefined) this.controller.abort(new Error("the body was not read to its end"))
    })
  }

  private startReading(as: "whole" | "chunks"): boolean {
    this.read ??= as
    return this.read === as
  }

  private takeAll(): Effect.Effect<ArrayBuffer, unknown> {
    if (Exit.isExit(this.end)) return this.end
    this.all ??= concat(this.chunks, this.unread)
    this.chunks = []
    return Effect.succeed(this.all)
  }

  private takeChunks(): Pull.Pull<Chunks, unknown> {
    const { chunks, end } = this
    if (Arr.isReadonlyArrayNonEmpty(chunks)) {
      this.chunks = []
      this.unread = 0
      return Effect.succeed(chunks)
    }
    if (end === undefined) return Effect.flatMap(this.change, () => this.takeChunks())
    return end === "complete" ? Cause.done() : end
  }

  /** Waits for the end of the body, and as a reader of chunks for a chunk. */
  private get change(): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const wake = () => resume(Effect.void)
      this.readers.add(wake)
      this.controller.resume()
      return Effect.sync(() => this.readers.delete(wake))
    })
  }

  private wakeReaders(): void {
    for (const wake of this.readers) queueMicrotask(wake)
    this.readers.clear()
  }
}

const alreadyRead = Effect.suspend(() => Effect.fail(new TypeError("the body was already read")))

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
