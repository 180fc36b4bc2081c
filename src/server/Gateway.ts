/**
 * The gateway as layers: its routes for applications that have a server, and the whole server.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { AuthorizationLayer } from "./Authorization.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { edge, routerConfig } from "./Edge.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { MaskedTracer } from "./MaskedTracer.ts"
import { OperationsLayer } from "./OperationsHandlers.ts"
import { Problems } from "./ProblemResponses.ts"
import { AdmissionLayer, ConformanceLayer, StrictRequestLayer } from "./RequestPolicies.ts"
import { SystemLayer } from "./SystemHandlers.ts"

/** The handlers and the middleware of the contract. */
const Handlers = Layer.mergeAll(OperationsLayer, SystemLayer).pipe(
  Layer.provide([AuthorizationLayer, AdmissionLayer, StrictRequestLayer, ConformanceLayer]),
  Layer.provide(Problems.layer)
)

/**
 * The endpoints of the contract, for the router of any application. They keep the contract wherever they are mounted;
 * other paths are the application's own affair.
 */
export const GatewayRoutes = HttpApiBuilder.layer(Api).pipe(Layer.provide(Handlers))

/** Scripts and styles are in the page itself, which fetches the API description and nothing else. */
const docsPolicy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
  + "font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** The page is made once, as bytes: a megabyte of text would be encoded anew for each reader, and held while it reads. */
const withDocsPolicy = HttpRouter.middleware((handled) => {
  let page: HttpServerResponse.HttpServerResponse | undefined
  return Effect.suspend(() =>
    page !== undefined
      ? Effect.succeed(page)
      : Effect.map(handled, (response) => {
        const bytes = response.body._tag === "Uint8Array" ? response.body.body : new Uint8Array()
        page = HttpServerResponse.uint8Array(bytes, {
          contentType: "text/html; charset=utf-8",
          headers: { "content-security-policy": docsPolicy, "cache-control": "public, max-age=300" }
        })
        return page
      })
  )
}).layer

/** The OpenAPI document at `/openapi.json`, and pages made of it at `/docs`. */
export const DocumentationRoutes = Layer.unwrap(
  Effect.map(BaseUrl, (url) => {
    const api = Api.annotate(OpenApi.Servers, [{ url }])
    const document = HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api), {
      headers: { "cache-control": "public, max-age=300" }
    })
    return Layer.mergeAll(
      HttpRouter.add("GET", "/openapi.json", document),
      HttpApiScalar.layer(api, { path: "/docs", scalar: { withDefaultFonts: false } }).pipe(
        Layer.provide(withDocsPolicy)
      )
    )
  })
)

const paths = [
  ...Object.values(Api.groups).flatMap((group) => Object.values(group.endpoints).map((endpoint) => endpoint.path)),
  "/openapi.json",
  "/docs"
] as ReadonlyArray<HttpRouter.PathInput>

/**
 * The server: every route, on the `HttpServer` that it is given. When its scope closes, it first turns new requests
 * away and lets those inside finish, and only then closes the server.
 */
export const GatewayServer = Layer.effectDiscard(
  Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    yield* Effect.addFinalizer(() => lifecycle.drain)
  })
).pipe(
  Layer.provideMerge(
    HttpRouter.serve(
      Layer.mergeAll(GatewayRoutes, DocumentationRoutes, edge(paths).pipe(Layer.provide(Problems.layer))),
      { routerConfig, disableLogger: true, disableListenLog: true }
    )
  ),
  Layer.provide(MaskedTracer)
)
