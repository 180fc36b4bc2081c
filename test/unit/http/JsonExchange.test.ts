/**
 * A JSON exchange with an authorization server is bounded in bytes and time, and its errors reveal nothing. The tests
 * run it against servers on loopback, over each HTTP client.
 */
import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer, Logger, References, Result, Tracer } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { gzipSync } from "node:zlib"
import { exchangeJson } from "../../../src/http/JsonExchange.ts"
import { serving } from "../../fixtures/http/listening.ts"

const clients: ReadonlyArray<readonly [string, Layer.Layer<HttpClient.HttpClient>]> = [
  ["undici", NodeHttpClient.layerUndici],
  ["fetch", NodeHttpClient.layerFetch],
  ["node:http", NodeHttpClient.layerNodeHttp]
]

const limits = { timeout: "3 seconds", size: 1000 } as const

const exchange = (
  request: HttpClientRequest.HttpClientRequest,
  within: { timeout: `${number} millis` } | object = {}
) =>
  Effect.flatMap(
    HttpClient.HttpClient,
    (client) => Effect.result(exchangeJson(client, request, { ...limits, ...within }))
  )

const reasonOf = (result: Result.Result<unknown, { readonly reason: string }>) =>
  Result.isFailure(result) ? result.failure.reason : "accepted"

const json = { "content-type": "application/json" }

for (const [name, layer] of clients) {
  describe(`An exchange with an authorization server, by ${name}`, () => {
    it.live("follows no redirect", () =>
      Effect.gen(function*() {
        const requests: Array<string | undefined> = []
        const url = yield* serving((request, response) => {
          requests.push(request.url)
          response.writeHead(request.url === "/" ? 302 : 200, { ...json, location: "/other" }).end("{}")
        })
        const reason = reasonOf(yield* exchange(HttpClientRequest.get(`${url}/`)))
        assert.include(reason, "status")
        assert.deepStrictEqual(requests, ["/"])
      }).pipe(Effect.scoped, Effect.provide(layer)))

    it.live("stops reading an endless body at the limit", () =>
      Effect.gen(function*() {
        let written = 0
        const url = yield* serving((_, response) => {
          response.writeHead(200, json)
          const more = () => {
            while (!response.destroyed && response.write(" ".repeat(1000))) written += 1000
          }
          response.on("drain", more)
          more()
        })
        assert.include(reasonOf(yield* exchange(HttpClientRequest.get(url))), "more than 1000 bytes")
        assert.isBelow(written, 50_000_000)
      }).pipe(Effect.scoped, Effect.provide(layer)))

    it.live("applies the limit to the decompressed body, if the client decompresses", () =>
      Effect.gen(function*() {
        const bomb = gzipSync(Buffer.alloc(1_000_000, " "))
        const url = yield* serving((_, response) =>
          response.writeHead(200, { ...json, "content-encoding": "gzip" }).end(bomb)
        )
        assert.match(reasonOf(yield* exchange(HttpClientRequest.get(url))), /more than 1000 bytes|not JSON/)
      }).pipe(Effect.scoped, Effect.provide(layer)))

    it.live("ends at the deadline when there is no answer, or an endless one, and closes the connection", () =>
      Effect.gen(function*() {
        for (const begins of [false, true]) {
          const { promise: closed, resolve } = Promise.withResolvers<void>()
          const url = yield* serving((_, response) => {
            response.on("close", resolve)
            if (begins) response.writeHead(200, json).write("{")
          })
          const result = yield* exchange(HttpClientRequest.get(url), { timeout: "100 millis" })
          assert.strictEqual(reasonOf(result), "no complete answer in time")
          yield* Effect.promise(() => closed)
        }
      }).pipe(Effect.scoped, Effect.provide(layer)))

    it.live("reports the code of a failure without the address or the request", () =>
      Effect.gen(function*() {
        const url = yield* Effect.scoped(serving(() => {}))
        const result = yield* exchange(HttpClientRequest.get(`${url}/SECRET`))
        assert.strictEqual(reasonOf(result), "the connection was refused (ECONNREFUSED)")
        assert.notMatch(JSON.stringify(result), /127\.0\.0\.1|SECRET/)
      }).pipe(Effect.scoped, Effect.provide(layer)))

    it.live("makes no span and logs nothing, because a request holds secrets", () =>
      Effect.gen(function*() {
        const spans: Array<string> = []
        const logs: Array<unknown> = []
        const tracer = Tracer.make({
          span: (options) => {
            spans.push(options.name)
            return new Tracer.NativeSpan(options)
          }
        })
        const url = yield* serving((_, response) => response.writeHead(200, json).end(`{"a":1}`))
        const result = yield* exchange(HttpClientRequest.get(url)).pipe(
          Effect.withTracer(tracer),
          Effect.provide(Logger.layer([Logger.make(({ message }) => logs.push(message))])),
          Effect.provideService(References.MinimumLogLevel, "All")
        )
        assert.deepStrictEqual(result, Result.succeed({ a: 1 }))
        assert.deepStrictEqual([spans, logs], [[], []])
      }).pipe(Effect.scoped, Effect.provide(layer)))
  })
}
