/** Requests are counted once, under labels that no client can choose, on both ways into the gateway. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { HttpClient, HttpRouter, HttpServerResponse } from "effect/http"
import * as fc from "fast-check"
import * as http from "node:http"
import { Api } from "../../../src/api/Api.ts"
import { McpApi } from "../../../src/api/McpApi.ts"
import { problemKinds } from "../../../src/api/ProblemKinds.ts"
import * as HttpMetrics from "../../../src/metrics/HttpMetrics.ts"
import { documentationPaths } from "../../../src/server/Documentation.ts"
import { pathsOf } from "../../../src/server/gate/Edge.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { layerServer } from "../../../src/server/Gateway.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { composedServer } from "../../fixtures/http/ComposedServer.ts"
import { heldStore, makeHeld, readOf } from "../../fixtures/http/HeldRequests.ts"
import { fixedGateway, fixedId, fixedToken } from "../../fixtures/http/HttpFixed.ts"
import { exchange, Gateway, type GatewayOptions } from "../../fixtures/http/HttpGateway.ts"
import { callOf, headersOf, modern, open, post } from "../../fixtures/mcp/HttpMcp.ts"
import { AdminWire } from "../../fixtures/metrics/AdminWire.ts"
import { counted, parseScrape } from "../../fixtures/metrics/Scrape.ts"

const one = `/v1/operations/${fixedId}`
const operationRoute = "/v1/operations/:id"
const total = "gateway_http_requests_total"
const refusals = "gateway_http_requests_refused_total"
const durations = "gateway_http_request_duration_seconds_count"

const gatewayWith = (options: GatewayOptions, services: Parameters<typeof fixedGateway>[0] = {}) =>
  counted(
    fixedGateway(services, options) as Layer.Layer<Gateway>,
    Layer.merge(HttpMetrics.layer, HttpMetrics.feedLayer)
  )

const ways = ["plain", "adapter"] as const

describe("The metrics of requests", () => {
  it.live.each(ways)("count each answer once, by route, method, status and code: %s", (way) => {
    const { layer, settled } = gatewayWith({ way })
    return Effect.gen(function*() {
      const { send, sendBytes } = yield* Gateway
      const token = fixedToken
      yield* send(one, { token })
      yield* send(one, { token })
      yield* send("/v1/operations", { token })
      yield* send("/healthz")
      yield* send(one)
      yield* send(one, { token: "wrong-token-0123456789" })
      yield* send(`${one}?a=b`, { token })
      yield* send("/v1/operations/no-id", { token })
      yield* send("/nowhere", { token })
      yield* send(one, { token, method: "DELETE" })
      yield* send("/v1/operations", { token, method: "HEAD" })
      yield* send(one, { method: "OPTIONS" })
      yield* sendBytes("BAD\r\n\r\n")
      const scrape = yield* settled
      const id = operationRoute
      const expected = [
        [id, "GET", "200", "none", 2],
        ["/v1/operations", "GET", "200", "none", 1],
        ["/healthz", "GET", "200", "none", 1],
        [id, "GET", "401", "missing_credentials", 1],
        [id, "GET", "401", "invalid_token", 1],
        [id, "GET", "422", "invalid_request", 2],
        ["unmatched", "GET", "404", "route_not_found", 1],
        [id, "DELETE", "405", "method_not_allowed", 1],
        ["/v1/operations", "HEAD", "200", "none", 1],
        [id, "OPTIONS", "204", "none", 1],
        ["unmatched", "other", "400", "malformed_request", 1],
        // The fixture reads the contract once.
        ["/openapi.json", "GET", "200", "none", 1]
      ]
      assert.sameDeepMembers(
        scrape.find(total).map(({ labels, value }) => [
          labels["route"],
          labels["method"],
          labels["status"],
          labels["code"],
          value
        ]),
        expected
      )
      assert.strictEqual(scrape.total(durations), scrape.total(total) - 1)
    }).pipe(Effect.provide(layer))
  })

  it.live.each(ways)("count refusals by their reason: %s", (way) => {
    const { layer, settled } = gatewayWith({ way, lifecycle: { maxInFlight: 1, maxInFlightPerClient: 0 } })
    return Effect.gen(function*() {
      const { send } = yield* Gateway
      assert.strictEqual((yield* send(one, { token: fixedToken })).status, 503)
      const scrape = yield* settled
      assert.strictEqual(scrape.total(refusals), 1)
      assert.strictEqual(scrape.total(refusals, { reason: "client_saturated" }), 1)
      assert.strictEqual(scrape.total(total, { status: "503", code: "service_unavailable" }), 1)
    }).pipe(Effect.provide(layer))
  })

  it.live.each(ways)("show how many requests run, and count one whose client left as 499: %s", (way) => {
    const held = makeHeld()
    const { layer, read, settled } = gatewayWith({ way }, heldStore(held))
    return Effect.gen(function*() {
      const { wire } = yield* Gateway
      const client = yield* wire
      client.send(readOf(one))
      yield* held.entered(1)
      assert.strictEqual((yield* read).total("gateway_http_requests_in_flight"), 1)
      assert.isAbove((yield* read).total("gateway_http_connections"), 0)
      client.destroy()
      yield* held.allInterrupted
      const scrape = yield* settled
      assert.strictEqual(scrape.total(total, { route: operationRoute, status: "499", code: "none" }), 1)
    }).pipe(Effect.provide(layer), Effect.scoped)
  })

  it.live("leave requests that waited out of the durations, also those whose client left meanwhile", () => {
    const { layer, read, settled } = gatewayWith({})
    const waits = Effect.repeat(Effect.delay(read, "5 millis"), {
      until: ({ total }) => total("gateway_waiters") === 1
    })
    return Effect.gen(function*() {
      const { send, wire } = yield* Gateway
      const client = yield* wire
      client.send(readOf(one, "Prefer: wait=50\r\n"))
      yield* waits
      client.destroy()
      const left = yield* settled
      assert.strictEqual(left.total(total, { route: operationRoute, status: "499" }), 1)
      assert.strictEqual(left.total(durations, { route: operationRoute }), 0)
      yield* send(one, { token: fixedToken, headers: { prefer: "wait=1" } })
      const waited = yield* settled
      assert.strictEqual(waited.total(total, { route: operationRoute, status: "200" }), 1)
      assert.strictEqual(waited.total(durations, { route: operationRoute }), 0)
      yield* send(one, { token: fixedToken })
      assert.strictEqual((yield* settled).total(durations, { route: operationRoute }), 1)
    }).pipe(Effect.provide(layer), Effect.scoped)
  })

  it.live("leave event streams out of the durations, and no other call of an agent", () => {
    const { layer, settled } = gatewayWith({})
    return Effect.gen(function*() {
      const { port } = yield* Gateway
      const wait = callOf(modern, 1, "wait_for_operation", { id: fixedId, seconds: 55 }, { progressToken: "p" })
      const headers = { ...headersOf(wait), authorization: `Bearer ${fixedToken}` }
      const stream = open(port, { body: JSON.stringify(wait), headers })
      yield* Effect.promise(() => stream.until((text) => text.includes("data: ")))
      stream.destroy()
      const streamed = yield* settled
      assert.strictEqual(streamed.total(total, { route: "/mcp" }), 1)
      assert.strictEqual(streamed.total(durations, { route: "/mcp" }), 0)
      yield* Effect.promise(() => post(port, fixedToken, callOf(modern, 2, "get_operation", { id: fixedId })))
      assert.strictEqual((yield* settled).total(durations, { route: "/mcp" }), 1)
    }).pipe(Effect.provide(layer))
  })

  it.live("count a request during the shutdown as draining, and one over the limit as saturated", () => {
    const held = makeHeld()
    const { layer, settled } = counted(
      fixedGateway(heldStore(held), { lifecycle: { maxInFlight: 1, deadline: 60_000 } }) as Layer.Layer<
        Gateway | Lifecycle
      >,
      HttpMetrics.layer
    )
    return Effect.gen(function*() {
      const { send, wire } = yield* Gateway
      const client = yield* wire
      client.send(readOf(one))
      yield* held.entered(1)
      assert.strictEqual((yield* send(one, { token: fixedToken })).status, 503)
      const drained = yield* Effect.forkChild((yield* Lifecycle).drain, { startImmediately: true })
      assert.strictEqual((yield* send(one, { token: fixedToken })).status, 503)
      held.release()
      yield* Fiber.join(drained)
      const scrape = yield* settled
      assert.strictEqual(scrape.total(refusals, { reason: "saturated" }), 1)
      assert.strictEqual(scrape.total(refusals, { reason: "draining" }), 1)
    }).pipe(Effect.provide(layer), Effect.scoped)
  })

  it.live("count requests over a quota as rate_limited", () => {
    const rateLimits = { quota: { requests: 1, window: 60, burst: 1 } }
    const { layer, settled } = gatewayWith({ rateLimits })
    return Effect.gen(function*() {
      const { send } = yield* Gateway
      yield* send(one, { token: fixedToken })
      assert.strictEqual((yield* send(one, { token: fixedToken })).status, 429)
      const scrape = yield* settled
      assert.strictEqual(scrape.total(refusals, { reason: "rate_limited" }), 1)
      assert.strictEqual(scrape.total(total, { status: "429", code: "rate_limited" }), 1)
    }).pipe(Effect.provide(layer))
  })
})

const documented = [...pathsOf([Api, McpApi]), ...documentationPaths].map(({ path }) => path)

/** Every value that a label of a request may have. */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  route: [...documented, "/", "unmatched"],
  method: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"],
  code: [...Object.keys(problemKinds), "none"]
}

const word = fc.string({ unit: fc.constantFrom(..."abcXYZ019-_.~%/:*?=&;"), maxLength: 24 })

const anyRequest = fc.record({
  method: fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "LOCK", "REPORT"),
  target: fc.oneof(
    word.map((text) => `/${text}`),
    fc.constantFrom("/v1/operations", "/mcp", "/problems", "/healthz", "/docs").map((path) => path),
    fc.tuple(fc.constantFrom("/v1/operations/", "/problems/", "/v1/"), word).map(([path, text]) => path + text),
    fc.uuid().map((id) => `/v1/operations/${id}`)
  ),
  token: fc.option(fc.string({ unit: fc.constantFrom(..."abcXYZ019-_"), minLength: 20, maxLength: 40 })),
  requestId: fc.string({ unit: fc.constantFrom(..."abcXYZ019-_"), minLength: 20, maxLength: 40 })
})

describe("The labels of the metrics of requests", () => {
  const requests = rounds(50, 200)

  it.live.each(ways)("have known values alone, of all that clients send: %s", (way) => {
    const { layer, settled } = gatewayWith({ way, quiet: true })
    return Effect.gen(function*() {
      const { port } = yield* Gateway
      const agent = new http.Agent({ keepAlive: true })
      const sent: Array<string> = []
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(anyRequest, async ({ method, requestId, target, token }) => {
            const authorization = token === null ? {} : { authorization: `Bearer ${token}` }
            await exchange(port, agent, target, { method, headers: { ...authorization, "x-request-id": requestId } })
            sent.push(requestId, ...token === null ? [] : [token])
          }),
          { numRuns: requests }
        )
      )
      agent.destroy()
      const scrape = yield* settled
      const samples = [...scrape.find(total), ...scrape.find(durations)]
      assert.strictEqual(scrape.total(total), requests + 1, "each request, and the one of the fixture")
      for (const [name, values] of Object.entries(allowed)) {
        const found = new Set(samples.flatMap(({ labels }) => labels[name] ?? []))
        assert.deepStrictEqual([...found].filter((value) => !values.includes(value)), [], name)
      }
      assert.isTrue(samples.every(({ labels }) => /^[1-5][0-9]{2}$/.test(labels["status"] ?? "200")))
      for (const secret of sent) assert.notInclude(scrape.text, secret)
    }).pipe(Effect.provide(layer))
  })
})

describe("The metrics of an application", () => {
  it.live("count its routes by their templates, also on a listener of its own and without a contract", () => {
    const Application = composedServer(
      layerServer(HttpRouter.add("GET", "/logos/:name", HttpServerResponse.text("logo")), [])
    )
    const { layer, settled } = counted(Application, HttpMetrics.layer)
    return Effect.gen(function*() {
      for (const path of ["/logos/a", "/logos/b", "/v1/operations"]) yield* HttpClient.get(path)
      const { total: sum } = yield* settled
      assert.strictEqual(sum(total, { route: "/logos/:name", method: "GET", status: "200", code: "none" }), 2)
      assert.strictEqual(sum(total, { route: "/v1/operations", status: "401", code: "missing_credentials" }), 1)
      assert.strictEqual(sum(total), 3)
    }).pipe(Effect.provide(layer))
  })
})

describe("The admin listener of a gateway without a free slot", () => {
  it.live("still answers /metrics", () => {
    const held = makeHeld()
    const { layer } = counted(
      Layer.provideMerge(
        fixedGateway(heldStore(held), { lifecycle: { maxInFlight: 2 } }) as Layer.Layer<Gateway>,
        AdminWire.layer()
      ),
      HttpMetrics.layer
    )
    return Effect.gen(function*() {
      const { send, wire } = yield* Gateway
      const clients = yield* Effect.all([wire, wire])
      for (const client of clients) client.send(readOf(one))
      yield* held.entered(2)
      assert.strictEqual((yield* send(one, { token: fixedToken })).status, 503)
      const { find, total: sum } = parseScrape((yield* (yield* AdminWire).fetch("/metrics")).text)
      assert.strictEqual(sum(refusals, { reason: "saturated" }), 1)
      assert.isAtLeast(find("gateway_http_requests_in_flight")[0]!.value, 2)
      held.release()
    }).pipe(Effect.provide(layer), Effect.scoped)
  })
})
