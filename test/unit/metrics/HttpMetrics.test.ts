/** Requests are counted once, under labels that no client can choose, on both ways into the gateway. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import * as HttpMetrics from "../../../src/metrics/HttpMetrics.ts"
import { counted } from "../../fixtures/Counted.ts"
import { heldStore, makeHeld, readOf } from "../../fixtures/HeldRequests.ts"
import { fixedGateway, fixedId, fixedToken } from "../../fixtures/HttpFixed.ts"
import { Gateway, type GatewayOptions } from "../../fixtures/HttpGateway.ts"

const one = `/v1/operations/${fixedId}`
const total = "gateway_http_requests_total"

const gatewayWith = (options: GatewayOptions, services: Parameters<typeof fixedGateway>[0] = {}) =>
  counted(fixedGateway(services, options) as Layer.Layer<Gateway>, HttpMetrics.layer)

const ways = [["lane", true], ["router", false]] as const

describe("The metrics of requests", () => {
  it.live.each(ways)("count each answer once, by route, method, status and code: %s", ([, lane]) => {
    const { layer, settled } = gatewayWith({ lane })
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
      const id = "/v1/operations/:id"
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
      assert.strictEqual(scrape.total("gateway_http_request_duration_seconds_count"), scrape.total(total) - 1)
    }).pipe(Effect.provide(layer))
  })

  it.live.each(ways)("count refusals by their reason: %s", ([, lane]) => {
    const { layer, settled } = gatewayWith({ lane, lifecycle: { maxInFlight: 1, maxInFlightPerClient: 0 } })
    return Effect.gen(function*() {
      const { send } = yield* Gateway
      assert.strictEqual((yield* send(one, { token: fixedToken })).status, 503)
      const scrape = yield* settled
      assert.strictEqual(scrape.total("gateway_http_requests_refused_total"), 1)
      assert.strictEqual(scrape.total("gateway_http_requests_refused_total", { reason: "client_saturated" }), 1)
      assert.strictEqual(scrape.total(total, { status: "503", code: "service_unavailable" }), 1)
    }).pipe(Effect.provide(layer))
  })

  it.live.each(ways)("show how many requests run, and count one whose client left as 499: %s", ([, lane]) => {
    const held = makeHeld()
    const { layer, read, settled } = gatewayWith({ lane }, heldStore(held))
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
      assert.strictEqual(scrape.total(total, { route: "/v1/operations/:id", status: "499", code: "none" }), 1)
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
      assert.strictEqual(scrape.total("gateway_http_requests_refused_total", { reason: "rate_limited" }), 1)
      assert.strictEqual(scrape.total(total, { status: "429", code: "rate_limited" }), 1)
    }).pipe(Effect.provide(layer))
  })
})
