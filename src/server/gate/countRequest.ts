import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { RouteContext } from "effect/http/HttpRouter"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type { HttpServerResponse } from "effect/http/HttpServerResponse"
import { exchangeOf, type HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { CurrentRequest } from "./RequestContext.ts"

/**
 * Notes the route and the problem of each request that passes the router. A listener other than `NodeListener` counts no requests, so
 * they are counted here until their response begins.
 */
export const countRequest = (metrics: HttpMetrics) =>
<E>(
  request: HttpServerRequest,
  handled: Effect.Effect<HttpServerResponse, E, HttpServerRequest>
): Effect.Effect<HttpServerResponse, E, HttpServerRequest> =>
  Effect.withFiber((fiber) => {
    const counted = exchangeOf(request.source)
    const exchange = counted ?? metrics.start(request.source, request.method, request.url)
    return Effect.onExit(handled, (exit) => {
      // The router leaves it in the context of the fiber.
      const route = Context.getOrUndefined(fiber.context, RouteContext)?.route
      if (route !== undefined) exchange.route = metrics.route(route.path)
      exchange.code = Context.get(fiber.context, CurrentRequest)?.problem ?? null
      if (counted === undefined) metrics.end(exchange, Exit.isSuccess(exit) ? exit.value.status : null)
      return Effect.void
    })
  })
