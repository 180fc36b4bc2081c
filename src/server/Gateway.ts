/**
 * The served application. A request passes these parts from the outside in; the response passes them in reverse:
 *
 *     GatewayServer            one HTTP server: drains on shutdown, masks tokens in trace spans
 *       edge                   request id, length limits, OPTIONS, problems for paths without an endpoint
 *       DocumentationRoutes    /openapi.json and /docs
 *       GatewayRoutes          the endpoints of the contract
 *         ConformanceLayer     every failure becomes a complete problem
 *         AdmissionLayer       slot for the request, and its deadline
 *         AuthorizationLayer   from the credential to the grant; slots and quota of its client
 *         StrictRequestLayer   no body, no unknown parameters
 *           OperationsLayer    handlers of /v1/operations
 *           SystemLayer        handlers of health, readiness, problems and resource metadata; without admission and
 *                              authorization
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { AdmissionLayer } from "./Admission.ts"
import { AuthorizationLayer } from "./Authorization.ts"
import { ConformanceLayer } from "./Conformance.ts"
import { documentationPaths, DocumentationRoutes } from "./Documentation.ts"
import { edge, routerConfig } from "./Edge.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { MaskedTracer } from "./MaskedTracer.ts"
import { OperationsLayer } from "./OperationsHandlers.ts"
import { Problems } from "./ProblemResponses.ts"
import { StrictRequestLayer } from "./StrictRequest.ts"
import { SystemLayer } from "./SystemHandlers.ts"

const Middleware = Layer.mergeAll(ConformanceLayer, AdmissionLayer, AuthorizationLayer, StrictRequestLayer)

const Handlers = Layer.mergeAll(OperationsLayer, SystemLayer)

/**
 * The endpoints of the contract, for the router of any application. They keep the contract wherever they are mounted.
 * Other paths belong to the application.
 */
export const GatewayRoutes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(Handlers),
  Layer.provide(Middleware),
  Layer.provide(Problems.layer)
)

/** The paths that the gateway serves, for the answers of `edge` to other paths and methods. */
const paths = [
  ...Object.values(Api.groups).flatMap((group) => Object.values(group.endpoints).map((endpoint) => endpoint.path)),
  ...documentationPaths
] as ReadonlyArray<HttpRouter.PathInput>

const Edge = edge(paths).pipe(Layer.provide(Problems.layer))

const Routes = HttpRouter.serve(
  Layer.mergeAll(GatewayRoutes, DocumentationRoutes, Edge),
  { routerConfig, disableLogger: true, disableListenLog: true }
)

/** Drains when the scope closes. The server closes after that, because it was built first. */
const Drain = Layer.effectDiscard(
  Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    yield* Effect.addFinalizer(() => lifecycle.drain)
  })
)

/**
 * The server: every route, on the `HttpServer` that the application provides. When its scope closes, it first refuses
 * new requests and lets running requests finish. Then it closes the server.
 */
export const GatewayServer = Drain.pipe(
  Layer.provideMerge(Routes),
  Layer.provide(MaskedTracer)
)
