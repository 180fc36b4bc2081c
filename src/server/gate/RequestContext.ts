/**
 * The current request: its id, and the path that problems name.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Headers from "effect/http/Headers"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import type { ProblemCode } from "../../api/ProblemKinds.ts"
import type { RequestId } from "../../domain/RequestId.ts"
import type { RequestIds } from "../../services/RequestIds.ts"

/** Header fields of a response (draft-ietf-httpapi-ratelimit-headers-11 §3, §4). */
export interface RateLimitFields {
  readonly RateLimit: string
  readonly RateLimitPolicy: string
}

/** The request that a problem is about. */
export interface RequestInfo {
  readonly id: RequestId
  /** Path without query, starting with a slash (RFC 9457 `instance`). */
  readonly path: string
  /** Scheme of the credential: its challenge carries the error. */
  readonly scheme: "Bearer" | "DPoP"
  /** The state of a charged quota. Every response to the request shows it. */
  rateLimit?: RateLimitFields
  /** Code of the problem that answers the request. */
  problem?: ProblemCode
}

/** The current request; null outside of `withRequestContext`. */
export const CurrentRequest = Context.Reference<RequestInfo | null>(
  "financial-agents-gateway/server/gate/CurrentRequest",
  { defaultValue: () => null }
)

/** The path of a request target of any form, without its query, which may hold secrets. */
export const pathOf = (target: string): string => {
  const end = target.search(/[?#]/)
  const path = end === -1 ? target : target.slice(0, end)
  return path.startsWith("/") ? path : `/${path}`
}

/** Whether a parameter of the path is empty. The router takes `/problems/` for `/problems/:code`; it is another path. */
export const hasEmptyParameter = (params: Readonly<Record<string, string | undefined>>): boolean => {
  for (const name in params) if (params[name] === "") return true
  return false
}

/**
 * Headers of every response, unless the response sets them. Pages must not run or frame a response, nor guess its type,
 * and caches must not keep it.
 */
export const headersOfEveryResponse = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
}

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

/**
 * The response with these headers alone, whose names are in lower case. `setHeaders` copies headers three times, which is a sixth of
 * the work of a small response.
 */
const withOwnHeaders = (
  response: HttpServerResponse.HttpServerResponse,
  headers: Record<string, string>
): HttpServerResponse.HttpServerResponse =>
  Object.assign(Object.create(Object.getPrototypeOf(response) as object), response, {
    headers: Headers.fromRecordUnsafe(headers)
  }) as HttpServerResponse.HttpServerResponse

const isDpop = (authorization: string | undefined) => authorization !== undefined && /^dpop /i.test(authorization)

/**
 * Gives a request its id, which appears in the response, in every log line of the request and in its trace span. `isLast` tells whether
 * the connection ends with the response.
 */
export const withRequestContext = (ids: RequestIds["Service"], isLast: () => boolean = () => false) =>
<E, R>(
  handle: (request: HttpServerRequest) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest> =>
  Effect.withFiber((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest)
    const id = ids.of(request.headers["x-request-id"])
    const info: RequestInfo = {
      id,
      path: pathOf(request.url),
      scheme: isDpop(request.headers["authorization"]) ? "DPoP" : "Bearer"
    }
    const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
    if (span?._tag === "Span") span.attribute("request_id", id)
    // The request restores the context of its fiber.
    fiber.setContext(withRequest(fiber.context, info))
    return Effect.map(handle(request), (response) => {
      const headers: Record<string, string> = { ...headersOfEveryResponse, ...response.headers, "x-request-id": id }
      if (info.rateLimit !== undefined) {
        headers["ratelimit"] = info.rateLimit.RateLimit
        headers["ratelimit-policy"] = info.rateLimit.RateLimitPolicy
      }
      if (isLast()) headers["connection"] = "close"
      return withOwnHeaders(response, headers)
    })
  })
