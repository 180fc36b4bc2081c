/** The admin listener serves metrics and the routes that are given to it, and refuses everything else. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { ProblemDetails } from "../../../src/api/Problems.ts"
import * as AdminListener from "../../../src/node/http/AdminListener.ts"
import { Platform } from "../../../src/node/process/runProgram.ts"
import * as AdminServer from "../../../src/operator/AdminServer.ts"
import { headersOfEveryResponse } from "../../../src/server/gate/RequestContext.ts"
import { RequestIds } from "../../../src/services/RequestIds.ts"
import { fixedGateway } from "../../fixtures/http/HttpFixed.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { AdminWire } from "../../fixtures/metrics/AdminWire.ts"

const decodeProblem = Schema.decodeUnknownSync(ProblemDetails, { onExcessProperty: "error" })

const more = {
  routes: Layer.merge(
    HttpRouter.add(
      "POST",
      "/more",
      HttpServerResponse.text("done", { headers: { "content-security-policy": "default-src 'self'" } })
    ),
    HttpRouter.add("GET", "/broken", Effect.die(new Error("broken")))
  ),
  paths: [{ path: "/more", methods: ["POST"] }, { path: "/broken", methods: ["GET"] }] as const,
  pages: [{ path: "/more", purpose: "More" }]
}

describe("AdminServer", () => {
  layer(AdminWire.layer(more))((it) => {
    it.effect("answers /metrics in the media type of the text format, with the headers of every response", () =>
      Effect.gen(function*() {
        const { headers, status } = yield* (yield* AdminWire).fetch("/metrics")
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
        for (const [name, value] of Object.entries(headersOfEveryResponse)) assert.strictEqual(headers.get(name), value)
      }))

    it.effect("answers HEAD as GET, without a body", () =>
      Effect.gen(function*() {
        const { headers, status, text } = yield* (yield* AdminWire).fetch("/metrics", { method: "HEAD" })
        assert.deepStrictEqual([status, text], [200, ""])
        assert.strictEqual(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
      }))

    it.effect("lists its pages at /, also those of further routes", () =>
      Effect.gen(function*() {
        const { status, text } = yield* (yield* AdminWire).fetch("/")
        assert.strictEqual(status, 200)
        assert.include(text, "/metrics  Metrics")
        assert.include(text, "/more  More")
      }))

    it.effect("answers further routes, which may set headers of their own", () =>
      Effect.gen(function*() {
        const { headers, text } = yield* (yield* AdminWire).fetch("/more", { method: "POST" })
        assert.strictEqual(text, "done")
        assert.strictEqual(headers.get("content-security-policy"), "default-src 'self'")
      }))

    it.effect("answers other paths with 404, and other methods with 405 and Allow", () =>
      Effect.gen(function*() {
        const { fetch } = yield* AdminWire
        for (const path of ["/metrics/", "/v1/operations", "/healthz"]) {
          assert.strictEqual((yield* fetch(path)).status, 404, path)
        }
        for (const [path, allow] of [["/metrics", "GET, HEAD, OPTIONS"], ["/more", "POST, OPTIONS"]] as const) {
          const refused = yield* fetch(path, { method: "DELETE" })
          assert.deepStrictEqual([refused.status, refused.headers.get("allow")], [405, allow])
        }
      }))

    it.effect("gives every answer the request id, and each error as a complete problem with that id", () =>
      Effect.gen(function*() {
        const { fetch, port } = yield* AdminWire
        const cases: ReadonlyArray<readonly [string, RequestInit, number, string | null]> = [
          ["/metrics", {}, 200, null],
          ["/", {}, 200, null],
          ["/more", { method: "OPTIONS" }, 204, null],
          ["/more", { method: "POST" }, 200, null],
          ["/none?secret", {}, 404, "route_not_found"],
          ["/metrics", { method: "PUT" }, 405, "method_not_allowed"],
          ["/more", { method: "POST", body: "x".repeat(65_537) }, 413, "payload_too_large"],
          ["/broken", {}, 500, "internal_error"]
        ]
        for (const [path, init, status, code] of cases) {
          for (const [sent, isKept] of [["0123-abcd", true], ["unsafe id", false]] as const) {
            const answer = yield* fetch(path, { ...init, headers: { "x-request-id": sent } })
            const id = answer.headers.get("x-request-id")
            assert.strictEqual(answer.status, status, path)
            assert.strictEqual(id === sent, isKept, `${path} ${id}`)
            if (code === null) continue
            const problem: object = decodeProblem(JSON.parse(answer.text))
            assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
            assert.deepInclude(problem, {
              type: `http://127.0.0.1:${port}/problems/${code}`,
              code,
              status,
              instance: path.replace("?secret", ""),
              request_id: id!
            })
          }
        }
      }))

    it.effect("refuses a body of more than 64 KiB", () =>
      Effect.gen(function*() {
        const { fetch } = yield* AdminWire
        assert.strictEqual((yield* fetch("/more", { method: "POST", body: "x".repeat(65_537) })).status, 413)
      }))

    it.effect("names the port and the setting if another process uses the port", () =>
      Effect.gen(function*() {
        const { port } = yield* AdminWire
        const error = yield* Effect.flip(
          Effect.scoped(Effect.asVoid(Layer.build(AdminListener.layerListening({ host: "127.0.0.1", port }))))
            .pipe(Effect.provide(RequestIds.layerSequential))
        )
        assert.include(
          String((error.cause as Error).message),
          `cannot listen on 127.0.0.1:${port}: another process uses the port. Set ADMIN_PORT to a free port `
            + "for each process, or give this one --admin-port (of `console`: --port)"
        )
      }))
  })
})

describe("The public and the admin server of a process", () => {
  it.live("share no route", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { fetch } = yield* AdminWire
      assert.strictEqual((yield* fetch("/metrics")).status, 200)
      assert.strictEqual((yield* send("/metrics")).status, 404)
      assert.strictEqual((yield* send("/healthz")).status, 200)
      assert.strictEqual((yield* fetch("/healthz")).status, 404)
    }).pipe(Effect.provide([
      fixedGateway({}).pipe(Layer.provideMerge(
        AdminServer.layer().pipe(
          Layer.provide(AdminListener.layerListening({ host: "127.0.0.1", port: 0 })),
          Layer.provide(Platform)
        )
      )),
      AdminWire.layer()
    ])))
})
