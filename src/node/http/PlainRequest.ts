/** A request without a body, as an `HttpServerRequest`. */
import * as Cookies from "effect/http/Cookies"
import * as Headers from "effect/http/Headers"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as UrlParams from "effect/http/UrlParams"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { TLSSocket } from "node:tls"

type Request = HttpServerRequest.HttpServerRequest

/** The members that `modify` replaces. */
type Changes = Parameters<Request["modify"]>[0]

/** The members of `PlainRequest` that read a body. Each request has one of no bytes. */
const bodyOf = ({ headers, method, originalUrl }: PlainRequest): Request =>
  HttpServerRequest.fromWeb(
    new globalThis.Request(URL.canParse(originalUrl) ? originalUrl : "http://localhost/", { method, headers })
  )

/** Its members are read on demand: most handlers read few of them. */
export class PlainRequest extends Inspectable.Class implements Request {
  readonly [HttpIncomingMessage.TypeId]: typeof HttpIncomingMessage.TypeId
  readonly [HttpServerRequest.TypeId]: typeof HttpServerRequest.TypeId
  readonly source: IncomingMessage
  /** Under the name by which `@effect/platform-node` finds it. */
  readonly response: ServerResponse
  readonly method: string
  readonly headers: Headers.Headers
  readonly #changes: Changes
  #body: Request | undefined

  constructor(source: IncomingMessage, response: ServerResponse, changes: Changes = {}) {
    super()
    this[HttpIncomingMessage.TypeId] = HttpIncomingMessage.TypeId
    this[HttpServerRequest.TypeId] = HttpServerRequest.TypeId
    this.source = source
    this.response = response
    this.method = source.method!
    // The record is Node's own, whose names are in lower case. A copy would cost more than all else here.
    this.headers = changes.headers ?? Headers.fromRecordUnsafe(source.headers as Record<string, string>)
    this.#changes = changes
  }

  get url(): string {
    return this.#changes.url ?? this.source.url!
  }

  get originalUrl(): string {
    const { headers, socket, url } = this.source
    const scheme = (socket as Partial<TLSSocket>).encrypted === true ? "https" : "http"
    return headers.host === undefined ? url! : `${scheme}://${headers.host}${url}`
  }

  get remoteAddress(): Option.Option<string> {
    return this.#changes.remoteAddress ?? Option.fromUndefinedOr(this.source.socket.remoteAddress)
  }

  get peerAddress(): Option.Option<string> {
    return this.#changes.peerAddress ?? this.remoteAddress
  }

  get protocol(): "http" | "https" | undefined {
    return this.#changes.protocol
  }

  get cookies(): Readonly<Record<string, string>> {
    return Cookies.parseHeader(this.headers["cookie"] ?? "")
  }

  get #empty(): Request {
    return this.#body ??= bodyOf(this)
  }

  get json() {
    return this.#empty.json
  }

  get text() {
    return this.#empty.text
  }

  get urlParamsBody() {
    return this.#empty.urlParamsBody
  }

  get arrayBuffer() {
    return this.#empty.arrayBuffer
  }

  get stream() {
    return this.#empty.stream
  }

  get multipart() {
    return this.#empty.multipart
  }

  get multipartStream() {
    return this.#empty.multipartStream
  }

  get upgrade() {
    return this.#empty.upgrade
  }

  get upgradeWith() {
    const empty = this.#empty
    return empty.upgradeWith.bind(empty)
  }

  modify(changes: Changes): PlainRequest {
    return new PlainRequest(this.source, this.response, { ...this.#changes, ...changes })
  }

  override toString(): string {
    return `PlainRequest(${this.method} ${UrlParams.redactUrl(this.url)})`
  }

  toJSON(): unknown {
    return HttpIncomingMessage.inspect(this, {
      _id: "HttpServerRequest",
      method: this.method,
      url: UrlParams.redactUrl(this.originalUrl)
    })
  }
}
