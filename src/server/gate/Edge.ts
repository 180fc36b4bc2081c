/** The outermost layer of the server. It applies to every request, also to those without an endpoint. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as FindMyWay from "effect/http/FindMyWay"
import * as HttpRouter from "effect/http/HttpRouter"
import { isHttpServerError } from "effect/http/HttpServerError"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Layer from "effect/Layer"
import type { unhandled } from "effect/Types"
import { exchangeOf, HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { RequestIds } from "../../services/RequestIds.ts"
import { answerFailure, respond } from "./FailureResponses.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { type ProblemOptions, Problems } from "./ProblemResponses.ts"
import { refuseTokenInQuery, withhold } from "./Refusals.ts"
import { maxBody } from "./RequestBody.ts"
import { frontForm, lacksHost, type RequestHeaders } from "./RequestChecks.ts"
import { type BegunRequest, hasEmptyParameter, makeBeginRequest, pathOf, variesByAccept } from "./RequestContext.ts"

type Handled = Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled, HttpServerRequest>

/** Longest request target, in characters. The longest target of the contract has about 1,000. */
export const maxTarget = 8192

/** Paths are literal: `/healthz/` and `//healthz` are other paths, and an overlong id is still an id. */
export const routerConfig = {
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  caseSensitive: true,
  maxParamLength: maxTarget
}

/**
 * Whether the request lacks the Host that it needs. Requests that did not arrive over HTTP/1.1 need none. Of a target in absolute form,
 * Effect's adapter gives the request the host of the target.
 */
const lacksRequiredHost = ({ source }: HttpServerRequest): boolean =>
  "httpVersion" in source && source.httpVersion === "1.1" && "headers" in source
  // The cast: Node's headers have lower-case names, and only `set-cookie` is a list.
  && lacksHost(source.headers as RequestHeaders)

/**
 * Whether the target is a path, or the `*` of OPTIONS (RFC 9112 §3.2). The router would find paths in other targets
 * too.
 */
const isTarget = ({ method, url }: HttpServerRequest): boolean =>
  url.startsWith("/") || (url === "*" && method === "OPTIONS")

/**
 * Whether there is a `;` in the path. The router takes it for the start of the query, but it is part of the path
 * (RFC 3986 §3.3). No path of the gateway has one.
 */
const hasPathParameters = ({ url }: HttpServerRequest): boolean => {
  const semicolon = url.indexOf(";")
  return semicolon !== -1 && !/[?#]/.test(url.slice(0, semicolon))
}

/**
 * Checks every path of this server. The endpoints of the contract check again, because applications mount them alone.
 */
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

/** What HTTP can send as the value of a header (RFC 9110 §5.5). */
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/

/** The name of a header that no server can send: its value may have ended the line. Null: there is none. */
const findUnsendable = (headers: Readonly<Record<string, string>>): string | null => {
  for (const name in headers) if (!headerValue.test(headers[name]!)) return name
  return null
}

/** A path of the server, in the router's syntax, and the methods of its endpoints. */
export interface ServedPath {
  readonly path: HttpRouter.PathInput
  readonly methods: ReadonlyArray<string>
}

/** The paths of the endpoints of these APIs. */
export const pathsOf = (apis: ReadonlyArray<HttpApi.Constraint>): ReadonlyArray<ServedPath> =>
  (apis as ReadonlyArray<HttpApi.Top>).flatMap((api) =>
    Object.values(api.groups).flatMap((group) =>
      (Object.values(group.endpoints) as ReadonlyArray<HttpApiEndpoint.Top>).map(({ method, path }) => ({
        path: path as HttpRouter.PathInput,
        methods: [method]
      }))
    )
  )

/** Finds a target's path in the router's syntax, and the value of `Allow` for it; undefined if no endpoint has the path. */
export const makeFindPath = (paths: ReadonlyArray<ServedPath>) => {
  const methodsOf = new Map<HttpRouter.PathInput, Set<string>>()
  for (const { methods, path } of paths) {
    methodsOf.set(path, new Set([...methodsOf.get(path) ?? [], ...methods]))
  }
  // A GET endpoint answers HEAD, too.
  const allowOf = (methods: ReadonlySet<string>) =>
    [...methods].flatMap((method) => method === "GET" ? ["GET", "HEAD"] : [method]).concat("OPTIONS").join(", ")
  const router = FindMyWay.make<{ readonly template: string | undefined; readonly allow: string }>(routerConfig)
  for (const [path, methods] of methodsOf) {
    router.on("GET", path as FindMyWay.PathInput, { template: path, allow: allowOf(methods) })
  }
  const server = { template: undefined, allow: allowOf(new Set(paths.flatMap(({ methods }) => methods))) }
  return (url: string) => {
    if (url === "*") return server
    const found = router.find("GET", url)
    return found === undefined || hasEmptyParameter(found.params) ? undefined : found.handler
  }
}

/** Returns the response to a request that no endpoint may see; undefined for other requests. */
const makeIntercept = (problems: Problems["Service"]) => (request: HttpServerRequest) => {
  if (hasTokenInQuery(request)) return respond(refuseTokenInQuery(problems))
  if (lacksRequiredHost(request)) {
    return respond(problems.fail("malformed_request", { detail: "The request has no valid Host header, or several." }))
  }
  if (!isTarget(request)) {
    return respond(problems.fail("malformed_request", { detail: "The request target has no path." }))
  }
  if (request.url.length > maxTarget) return respond(problems.fail("uri_too_long"))
  if (Number(request.headers["content-length"] ?? 0) > maxBody) return respond(problems.fail("payload_too_large"))
  if (hasPathParameters(request)) return respond(problems.fail("route_not_found"))
  return undefined
}

/** What people read at `/`, by form. */
type Front = Readonly<Record<"page" | "text", HttpServerResponse.HttpServerResponse>>

/** Answers people who read `/`. Programs that prefer JSON get the problem of a path without an endpoint. */
const answerFront = (problems: Problems["Service"], front: Front, headers: RequestHeaders) => {
  const form = frontForm(headers)
  return Effect.map(
    form === null ? respond(problems.fail("route_not_found")) : Effect.succeed(front[form]),
    variesByAccept
  )
}

const readsFront = ({ method, url }: HttpServerRequest): boolean =>
  (method === "GET" || method === "HEAD") && pathOf(url) === "/"

/** Answers a request without a route. `allow`: the methods of its path; undefined: no endpoint has the path. */
export const answerUnrouted = (
  problems: Problems["Service"],
  { method, url }: HttpServerRequest,
  allow: string | undefined,
  options?: ProblemOptions
): Handled => {
  if (method !== "OPTIONS" && !isDecodable(url)) {
    return respond(problems.fail("malformed_request", { detail: "The path is not valid percent-encoding." }))
  }
  if (allow === undefined) return respond(problems.fail("route_not_found", options))
  return method === "OPTIONS"
    ? Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { allow } }))
    : respond(problems.fail("method_not_allowed"), { allow })
}

/**
 * Notes the route and the problem of each request that passes the router. A listener other than `NodeListener` counts no requests, so
 * they are counted here until their response begins. Call the result with the status of the response; null: the client left.
 */
const countRequest =
  (metrics: HttpMetrics) =>
  (fiber: Fiber.Fiber<unknown, unknown>, { info, request }: BegunRequest): (status: number | null) => void => {
    const counted = exchangeOf(request.source)
    const exchange = counted ?? metrics.start(request.source, request.method, request.url)
    return (status) => {
      // The router leaves it in the context of the fiber.
      const route = Context.getOrUndefined(fiber.context, HttpRouter.RouteContext)?.route
      if (route !== undefined) exchange.route = metrics.route(route.path)
      exchange.code = info.problem ?? null
      if (counted === undefined) metrics.end(exchange, status)
    }
  }

/**
 * Adds request context, limits, `OPTIONS`, and complete problems for requests without an endpoint. `paths` are the
 * paths of all endpoints: other methods on them are 405, other paths are 404. `pathsOf` finds the paths of an API.
 * `front` is for people at `/`. It is no route, so every route of an application that matches `/` comes before it.
 */
export const edge = (
  paths: ReadonlyArray<ServedPath>,
  front?: Front
): Layer.Layer<never, never, HttpRouter.HttpRouter | Lifecycle | Problems | RequestIds> =>
  HttpRouter.middleware(
    Effect.gen(function*() {
      const lifecycle = yield* Lifecycle
      const problems = yield* Problems
      // A kept-alive connection would delay the server's shutdown.
      const begin = makeBeginRequest(yield* RequestIds, lifecycle.isDraining)
      const intercept = makeIntercept(problems)
      const served = front === undefined ? paths : [...paths, { path: "/" as const, methods: ["GET"] }]
      const findPath = makeFindPath(served)
      const metrics = yield* HttpMetrics
      if (metrics !== null) metrics.templateOf = (url) => findPath(url)?.template
      const count = metrics === null ? null : countRequest(metrics)

      const fallback = (cause: Cause.Cause<unknown>, request: HttpServerRequest): Handled => {
        const error = Cause.squash(cause)
        if (!isHttpServerError(error) || error.reason._tag !== "RouteNotFound") return answerFailure(problems, cause)
        return front !== undefined && readsFront(request)
          ? answerFront(problems, front, request.headers)
          : answerUnrouted(problems, request, findPath(request.url)?.allow)
      }
      const refuseUnsendable = (name: string) =>
        respond(withhold(problems, new Error(`the header ${name} has a character that no header may have`)))

      return (httpEffect: Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled>): Handled =>
        Effect.withFiber((fiber) => {
          const begun = begin(fiber)
          const { finish, request } = begun
          const end = count === null ? null : count(fiber, begun)
          const answered = (handled: Handled): Handled =>
            Effect.map(
              end === null ? handled : Effect.onExit(handled, (exit) => {
                end(Exit.isSuccess(exit) ? exit.value.status : null)
                return Effect.void
              }),
              finish
            )
          const intercepted = intercept(request)
          return intercepted !== undefined ? answered(intercepted) : Effect.matchCauseEffect(httpEffect, {
            onFailure: (cause) => answered(fallback(cause, request)),
            onSuccess: (response) => {
              const unsendable = findUnsendable(response.headers)
              if (unsendable !== null) return answered(refuseUnsendable(unsendable))
              end?.(response.status)
              return Effect.succeed(finish(response))
            }
          })
        })
    }),
    { global: true }
  )
