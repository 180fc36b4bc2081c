/**
 * Responses that own their headers. Effect's constructors copy headers once or more, and set the prototype of each copy, which costs more
 * than all else in a small response. V8 makes objects of a class in a twentieth of that time.
 */
import * as Cookies from "effect/http/Cookies"
import * as Headers from "effect/http/Headers"
import type * as HttpBody from "effect/http/HttpBody"
import * as HttpServerResponse from "effect/http/HttpServerResponse"

/** Makes the objects of a class headers of Effect. */
export const asHeaders = ({ prototype }: { readonly prototype: object }): void => {
  Object.setPrototypeOf(prototype, Object.getPrototypeOf(Headers.empty) as object)
}

/** Headers by their names in lower case. */
export class OwnedHeaders {
  [name: string]: string

  constructor(others: Readonly<Record<string, string>> = {}) {
    for (const name in others) this[name] = others[name]!
  }
}
asHeaders(OwnedHeaders)

class OwnedResponse {
  readonly status: number
  readonly statusText: string | undefined
  readonly headers: OwnedHeaders
  readonly cookies: Cookies.Cookies
  readonly body: HttpBody.HttpBody

  constructor(
    status: number,
    statusText: string | undefined,
    headers: OwnedHeaders,
    cookies: Cookies.Cookies,
    body: HttpBody.HttpBody
  ) {
    this.status = status
    this.statusText = statusText
    this.headers = headers
    this.cookies = cookies
    this.body = body
  }
}
Object.setPrototypeOf(OwnedResponse.prototype, Object.getPrototypeOf(HttpServerResponse.empty()) as object)

/** A response with these headers alone, which nothing else may change. */
export const makeOwnedResponse = (
  status: number,
  headers: OwnedHeaders,
  body: HttpBody.HttpBody
): HttpServerResponse.HttpServerResponse =>
  // It has the members of a response, and the prototype with the others.
  new OwnedResponse(status, undefined, headers, Cookies.empty, body) as unknown as HttpServerResponse.HttpServerResponse

/** The response with these headers alone. */
export const withOwnedHeaders = (
  { body, cookies, status, statusText }: HttpServerResponse.HttpServerResponse,
  headers: OwnedHeaders
): HttpServerResponse.HttpServerResponse =>
  // As above: the members of a response, and its prototype.
  new OwnedResponse(status, statusText, headers, cookies, body) as unknown as HttpServerResponse.HttpServerResponse
