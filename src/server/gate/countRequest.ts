import * as Context from "effect/Context"
import type * as Fiber from "effect/Fiber"
import { RouteContext } from "effect/http/HttpRouter"
import { exchangeOf, type HttpMetrics } from "../../metrics/HttpMetrics.ts"
import type { BegunRequest } from "./RequestContext.ts"

/**
 * Notes the route and the problem of each request that passes the router. A listener other than `NodeListener` counts no requests, so
 * they are counted here until their response begins. Call the result with the status of the response; null: the client left.
 */
export const countRequest =
  (metrics: HttpMetrics) =>
  (fiber: Fiber.Fiber<unknown, unknown>, { info, request }: BegunRequest): (status: number | null) => void => {
    const counted = exchangeOf(request.source)
    const exchange = counted ?? metrics.start(request.source, request.method, request.url)
    return (status) => {
      // The router leaves it in the context of the fiber.
      const route = Context.getOrUndefined(fiber.context, RouteContext)?.route
      if (route !== undefined) exchange.route = metrics.route(route.path)
      exchange.code = info.problem ?? null
      if (counted === undefined) metrics.end(exchange, status)
    }
  }
