/**
 * The outermost layer of the server: what holds for every request, whether or not there is an endpoint for it.
 */
import * as Cause from "effect/Cause"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as FindMyWay from "effect/http/FindMyWay"
import * as HttpRouter from "effect/http/HttpRouter"
import { ClientAbort, isHttpServerError } from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Layer from "effect/Layer"
import type { unhandled } from "effect/Types"
import type { Problem } from "../api/Problems.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { problemResponse, Problems } from "./ProblemResponses.ts"
import { refuseTokenInQuery } from "./Refusals.ts"
import { pathOf, withRequestContext } from "./RequestContext.ts"

type Handled = Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled, HttpServerRequest>

/** Longest request target, in characters. The longest that the contract can need has about 1,000. */
const maxTarget = 8192

/** Largest body, in bytes, that may be announced. None is read; a smaller one is told in a 422 that none was expected. */
const maxBody = 65_536

/** Paths are taken literally: `/healthz/` and `//healthz` are other paths, and an overlong id is still an id. */
export const routerConfig = {
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  caseSensitive: true,
  maxParamLength: maxTarget
}

/**
 * HTTP/1.1 demands exactly one Host (RFC 9112 §3.2); several arrive joined by commas. Requests that came another way have
 * none to show.
 */
const lacksHost = ({ headers, source }: HttpServerRequest): boolean =>
  (headers["host"]?.includes(",") ?? true) && "httpVersion" in source && source.httpVersion === "1.1"

/** A path, that of a URL, or the `*` of OPTIONS (RFC 9112 §3.2): the router would find paths in other targets too. */
const isTarget = ({ method, url }: HttpServerRequest): boolean =>
  url.startsWith("/") || (url === "*" && method === "OPTIONS")

/** The router takes a `;` in the path for the start of the query. It is part of the path (RFC 3986 §3.3), and none of ours. */
const hasPathParameters = ({ url }: HttpServerRequest): boolean => {
  const semicolon = url.indexOf(";")
  return semicolon !== -1 && !/[?#]/.test(url.slice(0, semicolon))
}

/** On every path, whatever answers there: the endpoints of the contract look for themselves, wherever they are mounted. */
const hasTokenInQuery = ({ url }: HttpServerRequest): boolean => {
  const query = url.indexOf("?")
  return query !== -1 && new URLSearchParams(url.slice(query)).has("access_token")
}

const isDecodable = (target: string): boolean => {
  try {
    decodeURIComponent(pathOf(target))
    return true
  } catch {
    return false
  }
}

const allow = { allow: "GET, HEAD, OPTIONS" }

/**
 * Request context, limits, `OPTIONS`, and complete problems for what no endpoint answers. `paths` are those that can be
 * read, in the router's syntax: other methods on them are 405, other paths are 404.
 */
export const edge = (
  paths: ReadonlyArray<HttpRouter.PathInput>
): Layer.Layer<never, never, HttpRouter.HttpRouter | Lifecycle | Problems | SecureRandom.SecureRandom> =>
  HttpRouter.middleware(
    Effect.gen(function*() {
      const lifecycle = yield* Lifecycle
      const problems = yield* Problems
      const withContext = withRequestContext(yield* SecureRandom.SecureRandom)
      const readable = FindMyWay.make<true>(routerConfig)
      for (const path of paths) readable.on("GET", path as FindMyWay.PathInput, true)
      const isReadable = (request: HttpServerRequest) => readable.find("GET", request.url) !== undefined

      const answer = (
        problem: Effect.Effect<never, Problem>,
        headers?: Readonly<Record<string, string>>
      ): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
        Effect.catch(problem, (problem) => problemResponse(problem, headers))

      const options = (request: HttpServerRequest) =>
        request.url === "*" || isReadable(request)
          ? Effect.succeed(HttpServerResponse.empty({ status: 204, headers: allow }))
          : answer(problems.fail("route_not_found"))

      /** What to answer before any endpoint is looked for, if anything. */
      const intercept = (request: HttpServerRequest) => {
        if (hasTokenInQuery(request)) return answer(refuseTokenInQuery(problems))
        if (lacksHost(request)) {
          return answer(problems.fail("malformed_request", { detail: "The request has no Host header, or several." }))
        }
        if (!isTarget(request)) {
          return answer(problems.fail("malformed_request", { detail: "The request target has no path." }))
        }
        if (request.url.length > maxTarget) return answer(problems.fail("uri_too_long"))
        if (Number(request.headers["content-length"] ?? 0) > maxBody) return answer(problems.fail("payload_too_large"))
        if (hasPathParameters(request)) return answer(problems.fail("route_not_found"))
        if (request.method === "OPTIONS") return options(request)
        return undefined
      }

      /** What to answer when no endpoint did. */
      const fallback = (cause: Cause.Cause<unknown>, request: HttpServerRequest): Handled => {
        const error = Cause.squash(cause)
        if (isHttpServerError(error) && error.reason._tag === "RouteNotFound") {
          if (!isDecodable(request.url)) {
            return answer(problems.fail("malformed_request", { detail: "The path is not valid percent-encoding." }))
          }
          return isReadable(request)
            ? answer(problems.fail("method_not_allowed"), allow)
            : answer(problems.fail("route_not_found"))
        }
        if (Cause.hasInterruptsOnly(cause)) {
          // A client that left hears nothing; one that a shutdown cut off may ask again.
          return cause.reasons.some((reason) => reason.annotations.has(ClientAbort.key))
            ? Effect.failCause(cause as Cause.Cause<never>)
            : answer(problems.fail("service_unavailable", { detail: "The gateway is shutting down." }))
        }
        return Effect.andThen(
          Effect.logError("A request failed with a defect", cause),
          answer(problems.fail("internal_error"))
        )
      }

      /** A connection that is kept would keep the server from closing. */
      const dismiss = (response: HttpServerResponse.HttpServerResponse) =>
        lifecycle.isDraining() ? HttpServerResponse.setHeader(response, "connection", "close") : response

      return (httpEffect: Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled>): Handled =>
        Effect.map(
          withContext(
            Effect.flatMap(
              HttpServerRequest,
              (request): Handled =>
                intercept(request) ?? Effect.catchCause(httpEffect, (cause) => fallback(cause, request))
            )
          ),
          dismiss
        )
    }),
    { global: true }
  )
