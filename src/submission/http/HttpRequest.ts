/**
 * The requests of an adapter: what it asks for, checked and encoded before anything is sent.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"

/** Header names and values. */
export type HttpHeaders = Readonly<Record<string, string>>

/** Headers that must not be seen by anyone but the provider. */
export type HttpCredentials = Readonly<Record<string, Redacted.Redacted<string>>>

/** A request for a mutation. */
export interface HttpSubmission {
  /** `POST` when not given. */
  readonly method?: "POST" | "PUT" | "PATCH"
  /** Below the base URL; begins with `/`. Encode what is put in with `encodeURIComponent`. */
  readonly path: string
  readonly headers?: HttpHeaders
  readonly body: Schema.Json
}

/** A status read. */
export interface HttpStatusRead {
  /** Below the base URL; begins with `/`. Encode what is put in with `encodeURIComponent`. */
  readonly path: string
  readonly headers?: HttpHeaders
}

/** The request cannot be made: nothing of it was sent. */
export class NotEncodable extends Data.TaggedError("NotEncodable")<{ readonly reason: string }> {}

/** Headers by which the connection is run, or the message is framed: these are the client's. */
const reservedHeaders: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

/** A payload that shows nothing of itself to those who log requests. */
class SilentBody extends HttpBody.Uint8Array {
  override toJSON(): unknown {
    return { _id: "effect/HttpBody", _tag: "Uint8Array", body: "<redacted>" }
  }
}

const notEncodable = (reason: string) => Effect.fail(new NotEncodable({ reason }))

/** Where providers are: `http` or `https`, an optional path, and nothing else. Throws a `TypeError`. */
export const parseBaseUrl = (baseUrl: string | URL): string => {
  const url = new URL(baseUrl)
  if (!/^https?:$/.test(url.protocol) || url.username + url.password + url.search + url.hash !== "") {
    throw new TypeError("the base URL of a provider has scheme, host and path, and no user, query or fragment")
  }
  return url.href.replace(/(?<!\/)\/+$/, "")
}

/** A reference such as `..` must not lead to another resource. */
const resolve = (baseUrl: string, path: string): Effect.Effect<string, NotEncodable> => {
  const text = baseUrl + path
  if (!path.startsWith("/") || !URL.canParse(text) || /[\\#\s]/.test(path)) return notEncodable("the path is invalid")
  const url = new URL(text)
  const segments = (pathname: string) => pathname.split("/").length
  return segments(url.pathname) === segments(new URL(baseUrl).pathname.replace(/\/$/, "") + path.split("?")[0]!)
    ? Effect.succeed(url.href)
    : notEncodable("the path has dot segments")
}

const checkHeaders = (headers: HttpHeaders): Effect.Effect<void, NotEncodable> => {
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) return notEncodable("the name of a header is invalid")
    if (reservedHeaders.has(name.toLowerCase())) return notEncodable(`the header ${name} is not the adapter's to set`)
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return notEncodable(`the value of the header ${name} is invalid`)
  }
  return Effect.void
}

/** Later headers win. */
const withHeaders = Effect.fnUntraced(function*(
  request: HttpClientRequest.HttpClientRequest,
  ...all: ReadonlyArray<HttpHeaders>
) {
  let result = request
  for (const headers of all) {
    yield* checkHeaders(headers)
    result = HttpClientRequest.setHeaders(result, headers)
  }
  return result
})

const reveal = (credentials: HttpCredentials): HttpHeaders =>
  Object.fromEntries(Object.entries(credentials).map(([name, value]) => [name, Redacted.value(value)]))

// Compressed answers could not be told from garbage, nor be limited, in the same way by every client.
const accept = { accept: "application/json", "accept-encoding": "identity" }

/** `headers` are those of the adapter itself: they win over all others. */
export const encodeSubmission = Effect.fnUntraced(
  function*(baseUrl: string, submission: HttpSubmission, credentials: HttpCredentials, headers: HttpHeaders) {
    const { body, method = "POST", path } = submission
    const url = yield* resolve(baseUrl, path)
    const bytes = new TextEncoder().encode(JSON.stringify(body))
    const request = HttpClientRequest.make(method)(url, {
      body: new SilentBody(bytes, "application/json", bytes.length)
    })
    return yield* withHeaders(request, accept, submission.headers ?? {}, reveal(credentials), headers)
  }
)

export const encodeStatusRead = Effect.fnUntraced(
  function*(baseUrl: string, { headers = {}, path }: HttpStatusRead, credentials: HttpCredentials) {
    const request = HttpClientRequest.get(yield* resolve(baseUrl, path))
    return yield* withHeaders(request, accept, headers, reveal(credentials))
  }
)
