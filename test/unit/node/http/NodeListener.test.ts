/**
 * A listener keeps requests that arrive before the routes, and ends the body of a request without one. The tests open real listeners
 * on loopback.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Scope from "effect/Scope"
import { once } from "node:events"
import type { Server } from "node:http"
import type * as net from "node:net"
import type { RequestId } from "../../../../src/domain/RequestId.ts"
import { createListener } from "../../../../src/node/http/NodeListener.ts"

const listen = async () => {
  const server = createListener({
    baseUrl: "https://gateway.test",
    requestIds: { of: () => "request-id" as RequestId }
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { server, url: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}` }
}

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
