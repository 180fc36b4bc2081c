/**
 * The routes of the gateway keep their contract inside another application. The tests mount them beside its routes,
 * without the gateway's own server.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { BaseUrl } from "../../../src/server/gate/BaseUrl.ts"
import { edge } from "../../../src/server/gate/Edge.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { Problems } from "../../../src/server/gate/ProblemResponses.ts"
import { GatewayRoutes } from "../../../src/server/Gateway.ts"
import { checkAny } from "../../fixtures/http/HttpConformance.ts"
import { applicationServices, fixedId, fixedToken, operationWith, webHandler } from "../../fixtures/http/HttpFixed.ts"
import { Observer } from "../../fixtures/http/HttpObserver.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { type Answer, toHeaders } from "../../fixtures/http/HttpWire.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

/** The routes of the gateway beside those of an application, without the gateway's own server. */
const Application = Layer.mergeAll(
  GatewayRoutes,
  HttpRouter.add("GET", "/", HttpServerResponse.text("the application"))
).pipe(
  Layer.provideMerge(NodeHttpServer.layerHttpServices),
  Layer.provideMerge(applicationServices({
    reads: {
      find: (_, id) => id === fixedId ? Effect.succeed(operationWith()) : Effect.die("broken"),
      list: () => Effect.succeed({ operations: [], next: null })
    },
    url: `${baseUrl}///`
  }))
)

const ask =
  (handler: (request: Request) => Promise<Response>) => (target: string, headers: Record<string, string> = {}) =>
    Effect.promise(async (): Promise<Answer> => {
      const response = await handler(new Request(`http://application.test${target}`, { headers }))
      const headerLines = [...response.headers]
      const answer = {
        status: response.status,
        headerLines,
        headers: toHeaders(headerLines),
        text: await response.text()
      }
      if (target !== "/" && target !== "/nowhere") {
        checkAny({ method: "GET", target, requestId: headers["x-request-id"] }, answer)
      }
      return answer
    })

describe("The routes in another application", () => {
  it.live("keep the contract, and leave other paths to the application", () =>
    Effect.gen(function*() {
      const get = ask(yield* webHandler(() => HttpRouter.toWebHandler(Application, { disableLogger: true })))
      const authorization = `Bearer ${fixedToken}`
      const target = `/v1/operations/${fixedId}`
      assert.strictEqual((yield* get("/")).text, "the application")
      assert.notProperty((yield* get("/nowhere")).headers, "x-request-id")
      assert.strictEqual((yield* get("/healthz", { "x-request-id": "from-outside" })).status, 200)
      assert.strictEqual((yield* get(target, { authorization })).status, 200)
      assert.strictEqual((yield* get(target, { authorization, "if-none-match": "*" })).status, 304)
      assertProblemOf(yield* get(target), "missing_credentials")
      assertProblemOf(yield* get(target, { authorization: "Bearer x" }), "invalid_token")
      assertProblemOf(yield* get("/v1/operations?x=1", { authorization }), "invalid_request")
      assertProblemOf(yield* get(`${target.slice(0, -1)}0`, { authorization }), "internal_error")
      assertProblemOf(yield* get(target, { authorization, accept: "text/html" }), "not_acceptable")
      assertProblemOf(yield* get("/healthz?access_token=x", { accept: "text/html" }), "malformed_request")
      assertProblemOf(yield* get("/problems/unknown"), "route_not_found")
    }))
})

describe("The edge around the routes of another application", () => {
  it.live("makes complete problems for defects, headers that cannot be sent, and unknown paths", () => {
    const observer = Observer.make()
    const Broken = Layer.mergeAll(
      HttpRouter.add("GET", "/broken", Effect.die(new Error("postgres://gateway:hunter2@10.0.0.7"))),
      HttpRouter.add("GET", "/split", HttpServerResponse.text("split", { headers: { "x-own": "a\r\nx-more: b" } })),
      edge(["/broken" as const, "/split" as const].map((path) => ({ path, methods: ["GET"] })))
    ).pipe(
      Layer.provide(Problems.layer),
      Layer.provide([BaseUrl.layer(baseUrl), Lifecycle.layer()]),
      Layer.provideMerge(NodeHttpServer.layerHttpServices),
      Layer.provideMerge(Observer.observeLogs),
      Layer.provideMerge(Layer.succeed(Observer, observer)),
      Layer.provideMerge(Platform)
    )
    return Effect.gen(function*() {
      const get = ask(yield* webHandler(() => HttpRouter.toWebHandler(Broken, { disableLogger: true })))
      const answer = yield* get("/broken", { "x-request-id": "broken-request" })
      assertProblemOf(answer, "internal_error")
      assert.notInclude(answer.text, "hunter2")
      const [cause, ...more] = observer.causesOf("broken-request")
      assert.deepStrictEqual([cause!.level, more], ["ERROR", []])
      assert.include(cause!.text, "hunter2")
      assertProblemOf(yield* get("/split", { "x-request-id": "split-request" }), "response_contract_failed")
      assert.include(observer.causesOf("split-request")[0]!.text, "the header x-own has a character")
      assertProblemOf(yield* get("/elsewhere"), "route_not_found")
    })
  })
})

describe("The base URL", () => {
  const build = (url: string) => Effect.scoped(Layer.build(BaseUrl.layer(url)))

  it.live.each(["", "gateway.test", "/relative", "ftp://gateway.test", "mailto:me@gateway.test", "file:///etc"])(
    "must be http or https, and absolute: %j stops the gateway from starting",
    (url) => Effect.map(Effect.exit(build(url)), (exit) => assert.strictEqual(exit._tag, "Failure"))
  )

  it.live("loses its trailing slashes, and may have a path", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* BaseUrl, "https://a.test/gateway")
    }).pipe(Effect.provide(BaseUrl.layer("https://a.test/gateway//"))))
})
