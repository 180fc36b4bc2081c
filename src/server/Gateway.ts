/**
 * The served application. The room `server`: the implementation of the contract. Read this file first. A request passes these parts from
 * the outside in; the response passes them in reverse:
 *
 *     layerServer              one HTTP server: drains on shutdown, masks tokens in trace spans
 *       edge                   request id, length limits, OPTIONS, problems for paths without an endpoint, the text or page at /
 *       DocumentationRoutes    /openapi.json and /docs
 *       McpRoutes              /mcp for language-model agents, behind the same gate, if the application adds it
 *       GatewayRoutes          the endpoints of the contract
 *         GateLayer            failures become complete problems; slot and deadline; from the credential to the grant; no
 *                              body, no unknown parameters
 *           OperationsLayer    handlers of /v1/operations, with the `ChangeWatcher` of the requests that wait
 *           SystemLayer        handlers of health, readiness, problems and resource metadata, behind the open gate
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as OpenApi from "effect/http-api/OpenApi"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { McpApi } from "../api/McpApi.ts"
import { documentationPaths, DocumentationRoutes, documentedApi } from "./Documentation.ts"
import { BaseUrl } from "./gate/BaseUrl.ts"
import { edge, pathsOf, routerConfig } from "./gate/Edge.ts"
import { GateLayer } from "./gate/Gate.ts"
import { Lifecycle } from "./gate/Lifecycle.ts"
import { Problems } from "./gate/ProblemResponses.ts"
import { MaskedTracer } from "./MaskedTracer.ts"
import { OperationsLayer } from "./OperationsHandlers.ts"
import { frontPage, frontText } from "./pages/FrontPage.ts"
import { gatewayName, makeRespondWithPage } from "./pages/Page.ts"
import { SystemLayer } from "./SystemHandlers.ts"
import { ChangeWatcher } from "./waits/ChangeWatcher.ts"

export { RequestIds } from "../services/RequestIds.ts"
export { TokenCipher } from "../services/TokenCipher.ts"
export type { LifecycleOptions } from "./gate/Lifecycle.ts"
export { layerRateLimits, type RateLimitOptions } from "./gate/RateLimits.ts"
export { BaseUrl, DocumentationRoutes, GateLayer, Lifecycle }

const Handlers = Layer.mergeAll(Layer.provide(OperationsLayer, ChangeWatcher.layer), SystemLayer)

/**
 * The endpoints of the contract, for the router of any application. Other paths belong to the application. `layerServer` adds what holds
 * for every path: `OPTIONS`, 405, the limits of targets (414), and of bodies where none is declared (413; here they are 422).
 */
export const GatewayRoutes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(Handlers),
  Layer.provide(GateLayer),
  Layer.provide(Problems.layer)
)

/** Drains when the scope closes. The server closes after that, because it was built first. */
const Drain = Layer.effectDiscard(
  Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    yield* Effect.addFinalizer(() => lifecycle.drain)
  })
)

/** The edge, with the front page under the title of the documentation. */
const edgeWithFront = (apis: ReadonlyArray<HttpApi.Constraint>, hasAgents: boolean) =>
  Layer.unwrap(
    Effect.gen(function*() {
      const title = Context.getOrElse(documentedApi(apis).annotations, OpenApi.Title, () => gatewayName)
      const respondWithPage = yield* makeRespondWithPage
      const baseUrl = yield* BaseUrl
      return edge([...pathsOf([Api, ...hasAgents ? [McpApi] : [], ...apis]), ...documentationPaths], {
        page: respondWithPage(frontPage(baseUrl, title, hasAgents)),
        text: HttpServerResponse.text(frontText(baseUrl, title), { headers: { "cache-control": "no-store" } })
      })
    })
  ).pipe(Layer.provide(Problems.layer))

/**
 * The server of an application: its routes, those of the gateway, and one documentation, on the `HttpServer` that the
 * application provides. Every response has a request id, and every error is a complete problem. When its scope closes, it
 * first refuses new requests and lets running requests finish. Then it closes the server.
 *
 * `apis` are the contracts of the routes. Paths outside of them are 404, except those that a route serves. People get a page or a text at
 * `/`, unless a route matches it. `agents` is the endpoint for agents: `McpRoutes`. Default: none.
 */
export const layerServer = <E, R, EA = never, RA = never>(
  routes: Layer.Layer<never, E, R>,
  apis: ReadonlyArray<HttpApi.Constraint>,
  agents?: Layer.Layer<never, EA, RA>
) =>
  Drain.pipe(
    Layer.provideMerge(HttpRouter.serve(
      Layer.mergeAll(
        GatewayRoutes,
        agents ?? Layer.empty as Layer.Layer<never, EA, RA>,
        routes,
        DocumentationRoutes(...apis),
        edgeWithFront(apis, agents !== undefined)
      ),
      { routerConfig, disableLogger: true, disableListenLog: true }
    )),
    Layer.provide(MaskedTracer)
  )
