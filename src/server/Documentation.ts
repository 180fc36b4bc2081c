/** The API documentation: the OpenAPI document at `/openapi.json`, and a page made of it at `/docs`. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { completeDocument } from "../api/OpenApiDocument.ts"
import { BaseUrl } from "./gate/BaseUrl.ts"
import type { ServedPath } from "./gate/Edge.ts"
import { hashSource } from "./pages/Html.ts"
import { makeStatic, type StaticContent } from "./StaticContent.ts"

/**
 * The settings of Scalar. Its defaults show controls that lead to services of its maker: on loopback, the developer tools with
 * "Share" and "Generate SDKs"; everywhere, "Open API Client" and "Powered by Scalar". The last one has no setting, so the
 * stylesheet removes it. The type of the settings has only some of them.
 */
const scalar = {
  withDefaultFonts: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  telemetry: false,
  customCss: "a[href^=\"https://www.scalar.com\"] { display: none !important; }"
} as HttpApiScalar.ScalarConfig

/**
 * The page contains its scripts and styles, and the policy names each script by its hash. It fetches the OpenAPI document and
 * sends the requests that a reader tries, both to this origin. Scalar adds stylesheets while it runs.
 */
const policyFor = (hashes: ReadonlyArray<string>) =>
  `default-src 'none'; script-src ${hashes.join(" ")}; style-src 'unsafe-inline'; img-src data:; font-src data:; `
  + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** The language of the page, and an empty icon: without it, browsers ask for /favicon.ico. */
const completeHead = (page: string): string =>
  page.replace("<html>", "<html lang=\"en\">").replace("<head>", "<head><link rel=\"icon\" href=\"data:,\">")

/** The API for the page: with the name of the license, without a link to its text on another site. */
const withoutLicenseLink = (api: HttpApi.Top): HttpApi.Top => {
  const license = Context.getOrElse(api.annotations, OpenApi.License, () => undefined)
  return license === undefined ? api : api.annotate(OpenApi.License, { name: license.name })
}

/** A shared cache would give one reader's request id to others. */
const cacheControl = "private, max-age=300"

const renderPage = (api: HttpApi.Top): Effect.Effect<StaticContent> =>
  Effect.gen(function*() {
    const render = yield* HttpRouter.toHttpEffect(HttpApiScalar.layer(withoutLicenseLink(api), { scalar }))
    const { body } = yield* render
    const page = completeHead(body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : "")
    const scripts = page.split("<script>").slice(1).map((rest) => rest.slice(0, rest.indexOf("</script>")))
    return {
      contentType: "text/html; charset=utf-8",
      bytes: new TextEncoder().encode(page),
      headers: {
        "content-security-policy": policyFor(yield* Effect.forEach(scripts, hashSource)),
        "cache-control": cacheControl
      }
    }
  }).pipe(
    // When the page is read: the first `Request` of a process loads Node's own HTTP client.
    Effect.provideServiceEffect(
      HttpServerRequest.HttpServerRequest,
      Effect.sync(() => HttpServerRequest.fromWeb(new Request("http://localhost/docs")))
    ),
    Effect.scoped,
    // The router of the page has its route.
    Effect.orDie
  )

const documentOf = (api: HttpApi.Top): StaticContent => ({
  contentType: "application/json",
  bytes: new TextEncoder().encode(JSON.stringify(OpenApi.fromApi(api))),
  headers: { "cache-control": cacheControl }
})

/** Serves content that its first reader makes: the script in the page takes 12 MiB of memory, and most processes serve no page. */
const StaticRoute = (path: HttpRouter.PathInput, content: Effect.Effect<StaticContent>) =>
  Layer.unwrap(
    Effect.map(makeStatic(content), (answer) =>
      HttpRouter.add("GET", path, ({ headers }) => Effect.map(answer, (of) => of(headers))))
  )

/** The paths of `DocumentationRoutes`. @internal */
export const documentationPaths: ReadonlyArray<ServedPath> = [
  { path: "/openapi.json", methods: ["GET"] },
  { path: "/docs", methods: ["GET"] }
]

/** The gateway's API without its literal types: only by `Top` can its groups be mixed with those of any application. */
const gatewayApi = Api as unknown as HttpApi.Top

const groupsOf = (api: HttpApi.Constraint) => Object.values((api as HttpApi.Top).groups)

/** Whether the group is the one of the gateway: an application may add the groups of the gateway's API to its own. */
const isOwn = (group: HttpApiGroup.Top): boolean => {
  const own = gatewayApi.groups[group.identifier]
  return own !== undefined && Object.keys(own.endpoints).join() === Object.keys(group.endpoints).join()
}

/**
 * One API for the documentation of an application: its groups, and those of the gateway. Title, version and the other
 * annotations are those of the first API; a transformation of it runs last. Throws if two groups have the same name.
 *
 * @internal
 */
export const documentedApi = (apis: ReadonlyArray<HttpApi.Constraint>): HttpApi.Top => {
  const [first] = apis as ReadonlyArray<HttpApi.Top>
  if (first === undefined) return gatewayApi
  const groups = [...apis.flatMap((api) => groupsOf(api)).filter((group) => !isOwn(group)), ...groupsOf(gatewayApi)]
  const names = groups.map(({ identifier }) => identifier)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw new Error(`two groups of the documented APIs have the name ${twice}: rename one`)
  const transform = Context.getOrElse(first.annotations, OpenApi.Transform, () => (document: object) => document)
  // `add` wants a tuple of known groups, and these are known at run time only.
  const composed = HttpApi.make(first.identifier).add(...groups as [HttpApiGroup.Top]) as unknown as HttpApi.Top
  return composed.annotateMerge(Context.mergeAll(
    OpenApi.annotations({ title: first.identifier, version: "1.0.0" }),
    first.annotations,
    OpenApi.annotations({
      transform: (document) => transform(completeDocument(document as OpenApi.OpenAPISpec, composed))
    })
  ))
}

/**
 * Serves the OpenAPI document and its page. The base URL of the gateway is the only server of the document. The APIs of an
 * application come before the gateway's in one document, under the title and version of the first one:
 * `OpenApi.annotations` sets them.
 */
export const DocumentationRoutes = (
  ...apis: ReadonlyArray<HttpApi.Constraint>
): Layer.Layer<never, never, BaseUrl | HttpRouter.HttpRouter> =>
  Layer.unwrap(
    Effect.map(BaseUrl, (url) => {
      const api = documentedApi(apis).annotate(OpenApi.Servers, [{ url }])
      return Layer.mergeAll(
        StaticRoute("/openapi.json", Effect.succeed(documentOf(api))),
        StaticRoute("/docs", renderPage(api))
      )
    })
  )
