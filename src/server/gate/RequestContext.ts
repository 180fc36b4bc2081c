/** The current request: its id, and the path that problems name. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as References from "effect/References"
import type { AnyProblemCode } from "../../api/ProblemKinds.ts"
import { asHeaders, withOwnedHeaders } from "../../dispatch/OwnedResponse.ts"
import type { RequestId } from "../../domain/RequestId.ts"
import type { RequestIds } from "../../services/RequestIds.ts"

/** Header fields of a response (draft-ietf-httpapi-ratelimit-headers-11 §3, §4). */
export interface RateLimitFields {
  readonly RateLimit: string
  readonly RateLimitPolicy: string
}

/** The request that a problem is about. */
interface RequestInfo {
  readonly id: RequestId
  /** Path without query, starting with a slash (RFC 9457 `instance`). */
  readonly path: string
  /** Scheme of the credential: its challenge carries the error. */
  readonly scheme: "Bearer" | "DPoP"
  /** The state of a charged quota. Every response to the request shows it. */
  rateLimit?: RateLimitFields
  /** Code of the problem that answers the request. */
  problem?: AnyProblemCode
  /** What the 503 says if the deadline or the shutdown interrupts a request that may record work. */
  interrupted?: string
}

/** The current request; null outside of `withRequestContext`. */
export const CurrentRequest = Context.Reference<RequestInfo | null>(
  "financial-agents-gateway/server/gate/CurrentRequest",
  { defaultValue: () => null }
)

/** From now on, an interruption of the current request is answered with this detail. */
export const noteInterrupted = (detail: string): Effect.Effect<void> =>
  Effect.map(CurrentRequest, (request) => {
    if (request !== null) request.interrupted = detail
  })

/** The path of a request target of any form, without its query, which may hold secrets. */
export const pathOf = (target: string): string => {
  const end = target.search(/[?#]/)
  const path = end === -1 ? target : target.slice(0, end)
  return path.startsWith("/") ? path : `/${path}`
}

/**
 * Whether a parameter of the path is empty. The router takes `/problems/` for `/problems/:code`; it is another path. `names` spares V8 the
 * search for names, which is slow in the router's records.
 */
export const hasEmptyParameter = (
  params: Readonly<Record<string, string | undefined>>,
  names: ReadonlyArray<string> = Object.keys(params)
): boolean => names.some((name) => params[name] === "")

/**
 * The headers of a response. Those that stand here are in every response, unless it sets them. Pages must not run or frame a response,
 * nor guess its type, and caches must not keep it.
 */
class ResponseHeaders {
  [name: string]: string
  "cache-control" = "no-store"
  "content-security-policy" = "default-src 'none'; frame-ancestors 'none'"
  "cross-origin-resource-policy" = "same-origin"
  "referrer-policy" = "no-referrer"
  "x-content-type-options" = "nosniff"

  constructor(own: Readonly<Record<string, string>>) {
    for (const name in own) this[name] = own[name]!
  }
}
asHeaders(ResponseHeaders)

/** Headers of every response, unless the response sets them. */
export const headersOfEveryResponse: Readonly<Record<string, string>> = { ...new ResponseHeaders({}) }

/** Tells caches that the form of the response depends on the request's `Accept` (RFC 9110 §12.5.5). */
export const variesByAccept = (
  response: HttpServerResponse.HttpServerResponse
): HttpServerResponse.HttpServerResponse => HttpServerResponse.setHeader(response, "vary", "accept")

/** The context of a request: its problems and its log lines carry its id. */
const withRequest = (context: Context.Context<never>, info: RequestInfo): Context.Context<never> =>
  Context.add(Context.add(context, CurrentRequest, info), References.CurrentLogAnnotations, {
    ...Context.get(context, References.CurrentLogAnnotations),
    request_id: info.id
  })

/** Its members are read on demand: most requests have no problem. */
class Info implements RequestInfo {
  readonly id: RequestId
  rateLimit?: RateLimitFields
  problem?: AnyProblemCode
  interrupted?: string
  readonly #request: HttpServerRequest

  constructor(id: RequestId, request: HttpServerRequest) {
    this.id = id
    this.#request = request
  }

  get path(): string {
    return pathOf(this.#request.url)
  }

  get scheme(): "Bearer" | "DPoP" {
    return /^dpop /i.test(this.#request.headers["authorization"] ?? "") ? "DPoP" : "Bearer"
  }
}

/** Begins a request: `finish` gives its response the id and the other headers of every response. */
export interface BegunRequest {
  readonly request: HttpServerRequest
  readonly info: RequestInfo
  readonly finish: (response: HttpServerResponse.HttpServerResponse) => HttpServerResponse.HttpServerResponse
}

/**
 * Gives the request of a fiber its id, which appears in the response, in every log line of the request and in its trace span. `isLast`
 * tells whether the connection ends with the response.
 */
export const makeBeginRequest =
  (ids: RequestIds["Service"], isLast: () => boolean = () => false) =>
  (fiber: Fiber.Fiber<unknown, unknown>): BegunRequest => {
    const request = Context.getUnsafe(fiber.context as Context.Context<HttpServerRequest>, HttpServerRequest)
    const id = ids.of(request.headers["x-request-id"])
    const info = new Info(id, request)
    const { span } = fiber.cache
    if (span?._tag === "Span") span.attribute("request_id", id)
    // The request restores the context of its fiber.
    fiber.setContext(withRequest(fiber.context, info))
    return {
      request,
      info,
      finish: (response) => {
        const headers = new ResponseHeaders(response.headers)
        headers["x-request-id"] = id
        if (info.rateLimit !== undefined) {
          headers["ratelimit"] = info.rateLimit.RateLimit
          headers["ratelimit-policy"] = info.rateLimit.RateLimitPolicy
        }
        if (isLast()) headers["connection"] = "close"
        return withOwnedHeaders(response, headers)
      }
    }
  }
