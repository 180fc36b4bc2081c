/**
 * Discovery finds and checks the metadata of an authorization server (RFC 8414). The tests use a server without a
 * network and the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Result } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { discover } from "../../../src/oauth/CachedDocument.ts"
import { FakeServer } from "../../fixtures/oauth/FakeServer.ts"
import { issuer } from "../../fixtures/oauth/Issuing.ts"

const oauth = "/.well-known/oauth-authorization-server"
const openId = "/.well-known/openid-configuration"

type Endpoint = Parameters<typeof discover>[1]

const discoverAt = (server: FakeServer, at = issuer, name: Endpoint = "jwks_uri") =>
  Effect.result(Effect.provideService(discover(at, name), HttpClient.HttpClient, server.client))

const failureOf = (answer: unknown, name: Endpoint = "jwks_uri") =>
  Effect.gen(function*() {
    const server = new FakeServer()
    server.serve(oauth, answer)
    const result = yield* discoverAt(server, issuer, name)
    assert.isTrue(Result.isFailure(result), "it was accepted")
    return Result.isFailure(result) ? result.failure.reason : ""
  })

describe("Discovery", () => {
  it.effect("requests the well-known path between host and path (RFC 8414)", () =>
    Effect.gen(function*() {
      const server = new FakeServer()
      const tenant = `${issuer}/tenant/1`
      server.serve(`${oauth}/tenant/1`, { issuer: tenant, jwks_uri: "https://keys.test/jwks", unknown: 1 })
      assert.deepStrictEqual(
        yield* discoverAt(server, tenant),
        Result.succeed("https://keys.test/jwks")
      )
      assert.lengthOf(server.requests, 1)
      assert.strictEqual(server.requests[0]!.method, "GET")
    }))

  it.effect("after a 404 requests the well-known path after the path, as OpenID providers serve it", () =>
    Effect.gen(function*() {
      const server = new FakeServer()
      const tenant = `${issuer}/tenant/`
      server.serve(`/tenant${openId}`, { issuer: tenant, introspection_endpoint: `${issuer}/introspect` })
      assert.deepStrictEqual(
        yield* discoverAt(server, tenant, "introspection_endpoint"),
        Result.succeed(`${issuer}/introspect`)
      )
      assert.deepStrictEqual(server.requests.map(({ url }) => new URL(url).pathname), [
        `${oauth}/tenant`,
        `/tenant${openId}`
      ])
    }))

  it.effect("requests nothing else after any other failure", () =>
    Effect.gen(function*() {
      for (const status of [400, 401, 403, 410, 500, 503]) {
        const server = new FakeServer()
        server.serve(oauth, () => new Response("", { status }))
        server.serve(openId, { issuer })
        assert.isTrue(Result.isFailure(yield* discoverAt(server)))
        assert.lengthOf(server.requests, 1)
      }
    }))

  it.effect("refuses metadata that names another issuer, even by one slash", () =>
    Effect.gen(function*() {
      for (const other of [`${issuer}/`, "https://AS.test", "https://other.test", undefined, null, [issuer]]) {
        assert.include(yield* failureOf({ issuer: other, jwks_uri: `${issuer}/jwks` }), "another issuer")
      }
    }))

  it.effect("refuses a URL that is not https", () =>
    Effect.gen(function*() {
      const urls = [
        "http://as.test/x",
        "http://127.0.0.1/x",
        "file:///etc/passwd",
        "/x",
        "",
        1,
        null,
        "https://a.test#x"
      ]
      for (const name of ["jwks_uri", "introspection_endpoint"] as const) {
        for (const url of urls) assert.include(yield* failureOf({ issuer, [name]: url }, name), name)
      }
    }))

  it.effect("refuses a redirect, another status and another media type", () =>
    Effect.gen(function*() {
      const found = JSON.stringify({ issuer })
      const headers = { location: "https://other.test", "content-type": "application/json" }
      for (const status of [201, 204, 301, 302, 307, 308]) {
        const body = status === 204 ? null : found
        assert.include(yield* failureOf(() => new Response(body, { status, headers })), `status ${status}`)
      }
      assert.include(
        yield* failureOf(() => new Response(found, { headers: { "content-type": "text/html" } })),
        "not JSON"
      )
      assert.include(yield* failureOf(() => new Response(found.slice(1), { headers })), "not JSON")
      assert.include(yield* failureOf(() => Response.json([{ issuer }])), "not a JSON object")
    }))

  it.effect("reads at most one mebibyte", () =>
    Effect.gen(function*() {
      const size = 1024 * 1024
      const padded = (length: number) =>
        JSON.stringify({ issuer, jwks_uri: `${issuer}/jwks`, padding: "" }).replace(`""`, `"${"x".repeat(length)}"`)
      const least = padded(0).length
      const headers = { "content-type": "application/json; charset=utf-8" }
      const server = new FakeServer()
      server.serve(oauth, () => new Response(padded(size - least), { headers }))
      assert.isTrue(Result.isSuccess(yield* discoverAt(server)))
      assert.include(yield* failureOf(() => new Response(padded(size - least + 1), { headers })), "more than 1048576")
    }))

  it.effect("waits three seconds for an answer, and aborts the request", () =>
    Effect.gen(function*() {
      const server = new FakeServer()
      server.delay = "1 hour"
      const fiber = yield* Effect.forkChild(discoverAt(server))
      yield* TestClock.adjust("2990 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("10 millis")
      const result = yield* Fiber.join(fiber)
      assert.include(Result.isFailure(result) ? result.failure.reason : "", "in time")
      assert.strictEqual(server.aborted, 1)
    }))
})
