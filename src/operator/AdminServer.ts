/**
 * The server for operators and scrapers, on a listener of its own. Its router shares no route with the public one.
 *
 * The room `operator`: what the admin listener serves. Read this file first.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { isHttpServerError } from "effect/http/HttpServerError"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import type { unhandled } from "effect/Types"
import { LedgerMetrics } from "../metrics/LedgerMetrics.ts"
import { answerUnrouted, makeFindPath, routerConfig, type ServedPath } from "../server/gate/Edge.ts"
import { answerFailure, respond } from "../server/gate/FailureResponses.ts"
import { Problems } from "../server/gate/ProblemResponses.ts"
import { maxBody } from "../server/gate/RequestBody.ts"
import type { RequestHeaders } from "../server/gate/RequestChecks.ts"
import { makeBeginRequest } from "../server/gate/RequestContext.ts"
import { MaskedTracer } from "../server/MaskedTracer.ts"
import { RequestIds } from "../services/RequestIds.ts"

/**
 * Names under which the listener answers, in lower case: `name:port`, or `name` with any port. A page of an attacker can have this
 * listener's address (DNS rebinding), but its requests name the attacker's host.
 */
export class AdminHosts extends Context.Service<AdminHosts, ReadonlyArray<string>>()(
  "financial-agents-gateway/operator/AdminHosts"
) {}

/** Whether the `Host` of a request is one of the names. Several `Host` headers arrive joined, and are none of them. */
const makeAdmits = (hosts: ReadonlyArray<string>) => {
  const known = new Set(hosts)
  return ({ host = "" }: RequestHeaders): boolean => {
    const name = host.toLowerCase()
    return known.has(name) || known.has(name.replace(/:\d+$/, ""))
  }
}

/** The begin of the shutdown of the listener. It waits for open responses, so endless ones must end then. */
export class AdminShutdown extends Context.Service<AdminShutdown, {
  /** Begins the shutdown. */
  readonly begin: Effect.Effect<void>
  /** Waits until it begins. */
  readonly begun: Effect.Effect<void>
}>()("financial-agents-gateway/operator/AdminShutdown") {
  static readonly layer: Layer.Layer<AdminShutdown> = Layer.sync(AdminShutdown, () => {
    const latch = Latch.makeUnsafe(false)
    return AdminShutdown.of({ begin: Effect.asVoid(latch.open), begun: Effect.asVoid(latch.await) })
  })
}

type Handled = Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled, HttpServerRequest>

/** A page of the server, for the list at `/`. */
export interface AdminPage {
  readonly path: string
  readonly purpose: string
}

/** Routes beside those of this file. */
export interface AdminRoutes<E, R> {
  readonly routes: Layer.Layer<never, E, R>
  /** Their paths and methods: other methods on them are 405, other paths are 404. */
  readonly paths: ReadonlyArray<ServedPath>
  readonly pages: ReadonlyArray<AdminPage>
  /** Host names under which browsers reach them, beside those of the listener. */
  readonly hosts?: ReadonlyArray<string>
}

/** The media type of Prometheus' text format, version 0.0.4. */
const metricsMediaType = "text/plain; version=0.0.4; charset=utf-8"

const ownPaths: ReadonlyArray<ServedPath> = [
  { path: "/", methods: ["GET"] },
  { path: "/metrics", methods: ["GET"] }
]

const ownPages: ReadonlyArray<AdminPage> = [{ path: "/metrics", purpose: "Metrics in the text format of Prometheus" }]

const listOf = (pages: ReadonlyArray<AdminPage>): string =>
  ["Financial Agents Gateway: admin listener", "", ...pages.map(({ path, purpose }) => `${path}  ${purpose}`), ""]
    .join("\n")

const scrape = Effect.gen(function*() {
  yield* (yield* LedgerMetrics) ?? Effect.void
  return HttpServerResponse.text(yield* PrometheusMetrics.format(), { contentType: metricsMediaType })
})

/** Begins every request, checks its `Host`, completes its response, and answers what no route answers. */
const frame = (paths: ReadonlyArray<ServedPath>, hosts: ReadonlyArray<string>) => {
  const findPath = makeFindPath(paths)
  return HttpRouter.middleware(
    Effect.gen(function*() {
      const admits = makeAdmits([...yield* AdminHosts, ...hosts])
      const problems = yield* Problems
      const begin = makeBeginRequest(yield* RequestIds)

      const failed = (cause: Cause.Cause<unknown>, request: HttpServerRequest) => {
        const error = Cause.squash(cause)
        return isHttpServerError(error) && error.reason._tag === "RouteNotFound"
          ? answerUnrouted(problems, request, findPath(request.url)?.allow, {
            detail: "GET / lists the pages of this listener."
          })
          : answerFailure(problems, cause)
      }
      const answer = (
        handled: Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled>,
        request: HttpServerRequest
      ) => {
        if (!admits(request.headers)) return respond(problems.fail("foreign_host"))
        return Number(request.headers["content-length"] ?? 0) > maxBody
          ? respond(problems.fail("payload_too_large"))
          : Effect.catchCause(handled, (cause) => failed(cause, request))
      }
      return (handled: Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled>): Handled =>
        Effect.withFiber((fiber) => {
          const { finish, request } = begin(fiber)
          return Effect.map(answer(handled, request), finish)
        })
    }),
    { global: true }
  )
}

/** Fresh: a process that also serves the API has these for another base URL. */
const OwnProblems = Layer.fresh(Problems.layer)

const nothingMore: AdminRoutes<never, never> = { routes: Layer.empty, paths: [], pages: [] }

/** Begins the shutdown when the scope closes. The server closes after that, because it was built first. */
const Stop = Layer.effectDiscard(
  Effect.flatMap(AdminShutdown, ({ begin }) => Effect.addFinalizer(() => begin))
)

/**
 * Serves `GET /metrics`, a list of the pages at `GET /`, and the routes of `more`, on the `HttpServer` that it gets
 * (`AdminListener`), under its `AdminHosts`. Every response has a request id, and every error is a complete problem, as on the public
 * listener: routes fail with `Problems`. Endless responses end with `AdminShutdown`. `/metrics` shows the `MetricRegistry` of the context. It asks for no credential.
 */
export const layer = <E = never, R = never>(
  more: AdminRoutes<E, R> = nothingMore as AdminRoutes<E, R>
) =>
  // Not `provideMerge`: the public server would add its routes to this router.
  Stop.pipe(Layer.provide(HttpRouter.serve(
    Layer.mergeAll(
      HttpRouter.add("GET", "/", HttpServerResponse.text(listOf([...ownPages, ...more.pages]))),
      HttpRouter.add("GET", "/metrics", scrape),
      more.routes,
      frame([...ownPaths, ...more.paths], more.hosts ?? [])
    ),
    { routerConfig, disableLogger: true, disableListenLog: true }
  ))).pipe(Layer.provide([MaskedTracer, AdminShutdown.layer, OwnProblems]))
