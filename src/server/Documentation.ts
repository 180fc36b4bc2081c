/**
 * The API documentation: the OpenAPI document at `/openapi.json`, and a page made of it at `/docs`.
 */
import * as Effect from "effect/Effect"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { BaseUrl } from "./BaseUrl.ts"

/** The page contains its scripts and styles. It fetches the OpenAPI document and nothing else. */
const docsPolicy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
  + "font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/**
 * Keeps the page as bytes from its first use on. As text, one megabyte would be encoded for each reader and held while
 * that reader downloads it.
 */
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

/** The paths of `DocumentationRoutes`. */
export const documentationPaths = ["/openapi.json", "/docs"] as const

/** Serves both, with the base URL of the gateway as the only server of the document. */
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
