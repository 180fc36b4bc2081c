/**
 * Paths and methods get the answers of the contract before any other check. The tests send every method to existing and
 * missing paths, on both ways.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { METHODS } from "node:http"
import { Gateway, memoryGateway, refuses } from "../../../fixtures/http/HttpGateway.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const id = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"

const paths = [
  "/healthz",
  "/readyz",
  "/v1/operations",
  `/v1/operations/${id}`,
  "/v1/operations/not-an-id",
  "/problems",
  "/problems/not_ready",
  "/problems/unknown",
  "/openapi.json",
  "/docs",
  // For people; to programs that prefer JSON it is an unknown path (`FrontPage.test.ts`).
  "/"
]

const unknownPaths = [
  "/v1",
  "/v1/",
  "/v2/operations",
  "/v1/operation",
  `/v1/operations/${id}/`,
  `/v1/operations/${id}/history`,
  "/healthz/",
  "//healthz",
  "/healthz//",
  "/HEALTHZ",
  "/V1/operations",
  "/v1//operations",
  "/v1/./operations",
  "/v1/operations/../healthz",
  "/healthz%2F",
  "/healthz;",
  "/v1/operations;access_token=x",
  `/v1/operations;/${id}`,
  `/v1/operations/${id};v=1?x=1`,
  "/.well-known/security.txt",
  "/favicon.ico",
  "/docs/",
  "/*",
  "/__proto__"
]

/** Every method that Node can send, without the supported ones and CONNECT, which asks for a tunnel. */
const otherMethods = METHODS.filter((method) => !["GET", "HEAD", "OPTIONS", "CONNECT"].includes(method))

layer(memoryGateway({ way: "both" }), { excludeTestServices: true })("A path", (it) => {
  it.effect("that the gateway does not have is 404 route_not_found, for every method", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      const methods = ["GET", "POST", "DELETE", "OPTIONS", "PROPFIND"]
      yield* refuses(
        "route_not_found",
        unknownPaths.flatMap((target) => [
          [`${target}?q=1`, { token }] as const,
          ...methods.map((method) => [target, { method }] as const)
        ])
      )
      for (const target of unknownPaths) assert.strictEqual((yield* send(target, { method: "HEAD" })).status, 404)
    }))

  it.effect("that exists is 405 for other methods before any other check, with any body, and Allow names its methods", () =>
    Effect.gen(function*() {
      const { token } = yield* issue()
      assert.isAbove(otherMethods.length, 25)
      const body = { headers: { "content-type": "application/json", accept: "text/html" }, body: "{\"amount\":1}" }
      const answers = yield* refuses("method_not_allowed", [
        ...paths.flatMap((target) => otherMethods.map((method) => [`${target}?q=1`, { method, token }] as const)),
        ...["POST", "PUT", "PATCH", "DELETE", "QUERY"].map((method) => ["/v1/operations", { method, ...body }] as const)
      ])
      for (const { answer } of answers) assert.strictEqual(answer.headers["allow"], "GET, HEAD, OPTIONS")
    }))

  it.effect("answers OPTIONS with its methods, and nothing else", () =>
    Effect.gen(function*() {
      const { send, sendBytes } = yield* Gateway
      for (const target of paths) {
        const answer = yield* send(target, { method: "OPTIONS" })
        assert.strictEqual(answer.status, 204)
        assert.strictEqual(answer.headers["allow"], "GET, HEAD, OPTIONS")
        assert.notProperty(answer.headers, "content-length")
        assert.notProperty(answer.headers, "access-control-allow-origin")
      }
      const all = yield* sendBytes("OPTIONS * HTTP/1.1\r\nHost: gateway.test\r\n\r\n", "OPTIONS", "*")
      assert.strictEqual(all.status, 204)
    }))

  it.effect("answers HEAD like GET, with the same headers, without a body", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const operation = yield* accept(holder)
      const others = [`/v1/operations/${operation.id}`, "/nowhere", "/healthz?q=1", "/v1/operations?page_size=0"]
      for (const target of [...paths, ...others]) {
        for (const token of ["unknown", holder.token]) {
          const request = { token, headers: { "x-request-id": "one-and-the-same" } }
          const got = yield* send(target, request)
          const head = yield* send(target, { ...request, method: "HEAD" })
          assert.strictEqual(head.status, got.status, target)
          const { date: _, ...expected } = got.headers
          const { date: __, ...actual } = head.headers
          assert.deepStrictEqual(actual, expected)
          assert.strictEqual(actual["content-length"], String(Buffer.byteLength(got.text)))
        }
      }
    }))

  it.effect("may come in absolute form with any authority, and with encoded letters (RFC 9112 §3.2.2)", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      for (const target of ["http://elsewhere.test/healthz", "https://gateway.test:443/healthz", "/%68ealthz"]) {
        const answer = yield* sendBytes(`GET ${target} HTTP/1.1\r\nHost: gateway.test\r\n\r\n`, "GET", target)
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.text, "{\"status\":\"ok\"}")
      }
    }))
})
