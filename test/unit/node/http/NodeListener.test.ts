/**
 * A listener keeps requests that arrive before the routes, ends the body of a request without one, and bounds the requests of a
 * connection. The tests open real listeners on loopback.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Scope from "effect/Scope"
import { once } from "node:events"
import type { Server, ServerResponse } from "node:http"
import * as net from "node:net"
import type { RequestId } from "../../../../src/domain/RequestId.ts"
import { createListener } from "../../../../src/node/http/NodeListener.ts"
import { listening } from "../../../fixtures/http/listening.ts"
import { until } from "../../../fixtures/until.ts"

const makeListener = () =>
  createListener({
    baseUrl: "https://gateway.test",
    requestIds: { of: () => "request-id" as RequestId }
  })

const listen = async () => {
  const server = makeListener()
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { server, url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}` }
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

const close = (server: Server) => {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(resolve))
}

describe("A listener", () => {
  it("answers requests that arrived before there were routes, as soon as there are", async () => {
    const { server, url } = await listen()
    const answer = fetch(url)
    const [socket] = await once(server, "connection") as [net.Socket]
    // Node parses a request when it reads it.
    while (socket.bytesRead === 0) await new Promise(setImmediate)
    server.on("request", (_request, response) => response.end("answered"))
    assert.strictEqual(await (await answer).text(), "answered")
    await close(server)
  })

  it.live("ends a connection when 64 of its requests lack their responses and one more comes, and runs none of those that follow", () =>
    Effect.gen(function*() {
      for (const hasRoutes of [true, false]) {
        const server = makeListener()
        const { port, sockets } = yield* listening(server)
        const waiting: Array<ServerResponse> = []
        if (hasRoutes) server.on("request", (_request, response) => waiting.push(response))
        const running = () => hasRoutes ? waiting.length : server.early.length
        const client = net.connect(port, "127.0.0.1").on("error", () => {}).resume()
        client.write(get.repeat(64))
        yield* until(() => running() === 64)
        if (hasRoutes) {
          const ends = waiting.map((response) => once(response, "finish"))
          for (const response of waiting.splice(0)) response.end()
          yield* Effect.promise(() => Promise.all(ends))
          client.write(get.repeat(64))
          yield* until(() => running() === 64)
        }
        assert.strictEqual(sockets.size, 1)
        client.write(get.repeat(1000))
        yield* until(() => sockets.size === 0)
        assert.strictEqual(running(), 64)
      }
    }))

  it.live("runs no request that comes after the answer that ends its connection", () =>
    Effect.gen(function*() {
      const server = makeListener()
      server.headersTimeout = 100
      const { port, sockets } = yield* listening(server)
      let running = 0
      server.on("request", (_request, response) => {
        running++
        response.end()
      })
      let received = ""
      const client = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => {})
      client.on("data", (data) => received += String(data))
      client.write(get)
      yield* until(() => received.includes("200"))
      client.write(get.slice(0, 10))
      yield* until(() => received.includes("408"))
      client.write(get.slice(10) + get)
      yield* until(() => sockets.size === 0)
      assert.strictEqual(running, 1)
    }))

  it("gives a handler that reads a body an empty one, if the request has none", async () => {
    const { server, url } = await listen()
    const echo = Effect.map(
      Effect.flatMap(HttpServerRequest, ({ text }) => text),
      (text) => HttpServerResponse.text(`<${text}>`)
    )
    const scope = Scope.makeUnsafe()
    server.on("request", Effect.runSync(NodeHttpServer.makeHandler(echo, { scope })))
    for (const init of [{ method: "DELETE" }, { method: "POST" }]) {
      assert.strictEqual(await (await fetch(url, init)).text(), "<>")
    }
    assert.strictEqual(await (await fetch(url, { method: "POST", body: "text" })).text(), "<text>")
    await close(server)
  })
})
