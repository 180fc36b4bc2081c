/**
 * The room `dispatch`: an HttpApi, compiled. It knows no operation, no path and no header by name. Read this file first.
 *
 * `group` takes the place of `HttpApiBuilder.group`. It has the same type and meaning, and `HttpApiBuilder.layer` mounts it like any
 * other. Where Effect interprets schemas and merges contexts for each request, its routes run code that was made from the endpoint
 * once: `RecordDecoder` reads parameters and bodies, `JsonEncoder` writes bodies. What neither of them decides, Effect's interpreter decides,
 * so all failures come from there. Endpoints with a stream, an upgrade, or security middleware keep Effect's route.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import { compileEndpoint } from "./CompiledEndpoint.ts"
import type { GroupService } from "./httpApiInternals.ts"

const isGroup = (service: unknown): service is GroupService =>
  typeof service === "object" && service !== null && "routes" in service && "handlers" in service

/** Implements the endpoints of a group, as `HttpApiBuilder.group` does. */
export const group: typeof HttpApiBuilder.group = (api, identifier, build) =>
  Layer.effectContext(
    Effect.contextWith((services: Context.Context<never>) =>
      Effect.map(
        // What the layer requires is in `services`: the layer below has the type of Effect's, which requires the same.
        Layer.build(HttpApiBuilder.group(api, identifier, build) as unknown as Layer.Layer<never>),
        (built) => {
          // `HttpApiBuilder.group` has taken the same identifier. Its types are too deep to follow here.
          const whole = api as unknown as HttpApi.Top
          const group = whole.groups[identifier]!
          const [[key, service] = []] = built.mapUnsafe
          if (key === undefined || !isGroup(service)) return built
          const handlers = [...service.handlers.values()]
          const routes = service.routes.map((route, index) => {
            const handler = compileEndpoint(whole, group, handlers[index]!, services)
            return handler === null
              ? route
              : HttpRouter.route(route.method, route.path, handler, { uninterruptible: route.uninterruptible })
          })
          return Context.makeUnsafe(new Map([[key, { ...service, routes }]]))
        }
      )
    )
    // It provides and requires what the layer of Effect does, as `typeof HttpApiBuilder.group` says.
  ) as never
