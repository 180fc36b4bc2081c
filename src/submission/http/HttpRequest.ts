/** Checks and encodes the requests of an adapter before anything is sent. */
import type * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import { acceptJson, RedactedBody } from "../../http/OutgoingRequest.ts"

export type { RedactedBody }

export type HttpHeaders = Readonly<Record<string, string>>

/** Headers that only the provider may see. */
export type HttpCredentials = Readonly<Record<string, Redacted.Redacted<string>>>

/** A request that submits an operation. */
export interface HttpSubmission {
  /** Default: `POST`. */
  readonly method?: "POST" | "PUT" | "PATCH"
  /** Path below the base URL; begins with `/`. Encode inserted values with `encodeURIComponent`. */
  readonly path: string
  readonly headers?: HttpHeaders
  /** JSON, or a `form`. */
  readonly body: Schema.Json | RedactedBody
}

/**
 * The body of a provider that takes forms (`application/x-www-form-urlencoded`): `form({ amount: "1250", "metadata[id]": id })`. Names and
 * values are encoded, in the order of the members.
 */
export const form: (fields: Readonly<Record<string, string>>) => RedactedBody = RedactedBody.form

export interface HttpStatusRead {
  /** Path below the base URL; begins with `/`. Encode inserted values with `encodeURIComponent`. */
  readonly path: string
  readonly headers?: HttpHeaders
}

/** A request that cancels an order. */
export interface HttpCancellation {
  readonly method: "POST" | "DELETE"
  /** Path below the base URL; begins with `/`. Encode inserted values with `encodeURIComponent`. */
  readonly path: string
}

/** The request cannot be encoded. Nothing of it was sent. */
export class NotEncodable extends Data.TaggedError("NotEncodable")<{ readonly reason: string }> {}

/** A step failed that has nothing of the operation: every other operation would meet the same. */
export class SameForAll extends Data.TaggedError("SameForAll")<{ readonly failure: Cause.Cause<unknown> }> {}

const sameForAll = <A, E>(step: Effect.Effect<A, E>): Effect.Effect<A, SameForAll> =>
  Effect.catchCause(step, (failure) => Effect.fail(new SameForAll({ failure })))

/** Headers that control the connection or frame the message. Only the HTTP client may set them. */
const reservedHeaders: ReadonlySet<string> = new Set(
  "connection content-length expect host keep-alive te trailer transfer-encoding upgrade".split(" ")
)

const notEncodable = (reason: string) => Effect.fail(new NotEncodable({ reason }))

/** A path whose segments stand for themselves in a URL. No path without dots has dot segments. */
const plainPath = /^(?:\/[A-Za-z0-9_~-]+)+$/

/**
 * A dot segment, with or without escapes. A URL drops it, and some servers read an escaped slash as a slash. So a value such as `.` or `../x`
 * would lead to another resource: `/orders/.` is `/orders/`, which may be that of all orders.
 */
const dotSegment = /(?:\/|%2f|%5c)(?:\.|%2e){1,2}(?=\/|%2f|%5c|$)/iu

/** Appends a path to the base URL. */
const resolve = (baseUrl: string, path: string): Effect.Effect<string, NotEncodable> => {
  const text = baseUrl + path
  if (plainPath.test(path)) return Effect.succeed(text)
  if (!path.startsWith("/") || !URL.canParse(text) || /[\\#\s\p{Cc}]/u.test(path)) {
    return notEncodable("the path is invalid")
  }
  return dotSegment.test(path.split("?")[0]!)
    ? notEncodable("a segment of the path is . or .., which names another resource")
    : Effect.succeed(new URL(text).href)
}

const headerProblem = (name: string, value: string): string | null => {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) return "a header name is invalid"
  if (reservedHeaders.has(name.toLowerCase())) return `the adapter must not set the header ${name}`
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? null : `the value of the header ${name} is invalid`
}

const problemIn = (headers: ReadonlyArray<readonly [string, string]>): string | null => {
  for (const [name, value] of headers) {
    const problem = headerProblem(name, value)
    if (problem !== null) return problem
  }
  return null
}

/** Sets headers. Later headers replace earlier ones of the same name. */
const withHeaders = (
  request: HttpClientRequest.HttpClientRequest,
  ...all: ReadonlyArray<HttpHeaders>
): Effect.Effect<HttpClientRequest.HttpClientRequest, NotEncodable> => {
  const headers = all.flatMap((some) => Object.entries(some))
  const problem = problemIn(headers)
  return problem === null ? Effect.succeed(HttpClientRequest.setHeaders(request, headers)) : notEncodable(problem)
}

const reveal = (credentials: HttpCredentials): HttpHeaders =>
  Object.fromEntries(Object.entries(credentials).map(([name, value]) => [name, Redacted.value(value)]))

/** Fails if credentials cannot be sent as headers. The failure names the header, and not its value. */
export const checkCredentials = (credentials: HttpCredentials): Effect.Effect<void, SameForAll> =>
  sameForAll(Effect.suspend(() => {
    const problem = problemIn(Object.entries(reveal(credentials)))
    return problem === null ? Effect.void : notEncodable(problem)
  }))

const unsigned = () => Effect.succeed<HttpHeaders>({})

/** Encodes a submission. `headers` are those of the adapter itself, and replace all others of the same name. */
export const encodeSubmission = (
  baseUrl: string,
  submission: HttpSubmission,
  credentials: HttpCredentials,
  headers: HttpHeaders,
  sign: (body: Uint8Array) => Effect.Effect<HttpHeaders, unknown> = unsigned
): Effect.Effect<HttpClientRequest.HttpClientRequest, unknown> =>
  Effect.flatMap(resolve(baseUrl, submission.path), (url) => {
    const body = submission.body instanceof RedactedBody ? submission.body : RedactedBody.json(submission.body)
    const request = HttpClientRequest.make(submission.method ?? "POST")(url, { body })
    return Effect.flatMap(
      sameForAll(sign(body.body)),
      (signed) => withHeaders(request, acceptJson, submission.headers ?? {}, signed, reveal(credentials), headers)
    )
  })

/** A stored answer tells of an earlier state (RFC 9111 §5.2.1.4). */
const freshState = { "cache-control": "no-cache" }

/** Encodes a request without a body: a status read, or a cancellation. */
export const encodeWithoutBody = (
  baseUrl: string,
  { headers = {}, method = "GET", path }: HttpStatusRead & { readonly method?: HttpCancellation["method"] | "GET" },
  credentials: HttpCredentials
): Effect.Effect<HttpClientRequest.HttpClientRequest, NotEncodable> =>
  Effect.flatMap(
    resolve(baseUrl, path),
    (url) => withHeaders(HttpClientRequest.make(method)(url), acceptJson, freshState, headers, reveal(credentials))
  )
