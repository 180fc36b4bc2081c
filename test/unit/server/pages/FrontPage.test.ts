/**
 * The page at `/` is for people alone, and an application may have `/` for itself. The tests request it over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { HttpClientRequest, HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { layerServer } from "../../../../src/server/Gateway.ts"
import { composedServer, send } from "../../../fixtures/http/ComposedServer.ts"
import { pageType } from "../../../fixtures/http/HttpConformance.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../../fixtures/http/HttpProblem.ts"

const accept = "text/html,application/xhtml+xml,*/*;q=0.8"

layer(memoryGateway(), { excludeTestServices: true })("The front page", (it) => {
  it.effect("is for browsers, and text for other people; programs that prefer JSON get a problem", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of ["/", "/?utm_source=x"]) {
        const page = yield* send(target, { headers: { accept } })
        assert.deepStrictEqual([page.status, page.headers["content-type"]], [200, pageType])
        for (const headers of [{}, { accept: "*/*" }, { accept: "text/plain" }]) {
          const { headers: { vary, "content-type": type }, status, text } = yield* send(target, { headers })
          assert.deepStrictEqual([status, type, vary], [200, "text/plain", "accept"])
          assert.lengthOf(text.match(/^curl /gm)!, 3)
        }
        for (const form of ["application/json", "application/json, text/plain, */*", "image/png"]) {
          const answer = yield* send(target, { headers: { accept: form } })
          assertProblemOf(answer, "route_not_found")
          assert.strictEqual(answer.headers["vary"], "accept")
        }
      }
    }))

  it.effect("answers HEAD with the headers of GET, OPTIONS with its methods, and other methods with 405", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const page = yield* send("/", { headers: { accept } })
      const head = yield* send("/", { method: "HEAD", headers: { accept } })
      assert.deepStrictEqual([head.status, head.text], [200, ""])
      assert.strictEqual(head.headers["content-length"], page.headers["content-length"])
      assert.strictEqual((yield* send("/", { method: "HEAD", headers: { accept: "application/json" } })).status, 404)
      assert.strictEqual((yield* send("/", { method: "OPTIONS" })).headers["allow"], "GET, HEAD, OPTIONS")
      assertProblemOf(yield* send("/", { method: "POST", headers: { accept } }), "method_not_allowed")
    }))

  it.effect("is at no other path, and at none with a token in its query", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of ["//", "/;x", "/.", "/%2f", "/index.html", "/nowhere"]) {
        assertProblemOf(yield* send(target, { headers: { accept } }), "route_not_found", target)
      }
      assertProblemOf(yield* send("/?access_token=x", { headers: { accept } }), "malformed_request")
    }))

  it.effect("leads to paths that exist", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { text } = yield* send("/", { headers: { accept } })
      const targets = new Set([...text.matchAll(/ href="([a-z.]+)"/g)].map(([, target]) => target!))
      assert.includeMembers([...targets], ["docs", "openapi.json", "problems", "healthz", "readyz"])
      for (const target of targets) assert.strictEqual((yield* send(`/${target}`)).status, 200, target)
      assert.include(text, `curl ${baseUrl}/healthz`)
    }))
})

class RootApi extends HttpApi.make("root").add(
  HttpApiGroup.make("root").add(HttpApiEndpoint.get("root", "/", { success: Schema.Struct({ name: Schema.String }) }))
).annotateMerge(OpenApi.annotations({ title: "Team <Payments>" })) {}

const RootRoute = HttpApiBuilder.layer(RootApi).pipe(
  Layer.provide(
    HttpApiBuilder.group(RootApi, "root", (handlers) => handlers.handle("root", () => Effect.succeed({ name: "team" })))
  )
)

/** The answer of an application with these routes to a browser that reads `/`. */
const readRoot = (
  routes: Layer.Layer<never, never, Layer.Services<typeof RootRoute>>,
  apis: ReadonlyArray<HttpApi.Constraint> = []
) =>
  send(HttpClientRequest.get("/", { headers: { accept } })).pipe(
    Effect.provide(composedServer(layerServer(routes, apis)))
  )

const own = HttpServerResponse.text("own")

interface Own {
  readonly what: string
  readonly routes: Parameters<typeof readRoot>[0]
  readonly apis?: ReadonlyArray<HttpApi.Constraint>
  readonly text: string
}

describe("An application's own /", () => {
  it.live.each<Own>([
    { what: "a route", routes: HttpRouter.add("GET", "/", own), text: "own" },
    { what: "a route of all methods", routes: HttpRouter.add("*", "/", own), text: "own" },
    { what: "a wildcard, such as that of static files", routes: HttpRouter.add("GET", "/*", own), text: "own" },
    { what: "an endpoint of its API", routes: RootRoute, apis: [RootApi], text: "{\"name\":\"team\"}" }
  ])(
    "comes before the page: $what",
    ({ apis, routes, text }) =>
      Effect.map(readRoot(routes, apis), (answer) => assert.deepInclude(answer, { status: 200, text }))
  )

  it.live("takes no other method than its own from the page", () =>
    Effect.map(readRoot(HttpRouter.add("POST", "/", own)), ({ status, text }) => {
      assert.strictEqual(status, 200)
      assert.include(text, "<h1>Financial Agents Gateway</h1>")
    }))

  it.live("stands for no right to /docs: a second route there fails at the start", () =>
    Effect.map(
      Effect.exit(readRoot(HttpRouter.add("GET", "/docs", own))),
      (exit) => assert.match(String(exit), /Method 'GET' already declared for route '\/docs'/)
    ))

  it.live("is not needed: the page shows the title of the application's documentation", () =>
    Effect.map(
      readRoot(HttpRouter.add("GET", "/logo", own), [RootApi]),
      ({ text }) => assert.include(text, "<h1>Team &lt;Payments&gt;</h1>")
    ))
})
