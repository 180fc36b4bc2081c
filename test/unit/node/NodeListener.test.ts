/**
 * A listener keeps requests that arrive before the routes, and names why it cannot listen. The tests open real listeners on
 * loopback.
 */
import { assert, describe, it } from "@effect/vitest"
import { ServeError } from "effect/http/HttpServerError"
import { once } from "node:events"
import type * as net from "node:net"
import type { RequestId } from "../../../src/domain/RequestId.ts"
import { explainListenFailure } from "../../../src/node/http/ListenAddress.ts"
import { createListener } from "../../../src/node/http/NodeListener.ts"

describe("A listener", () => {
  it("answers requests that arrived before there were routes, as soon as there are", async () => {
    const server = createListener({
      baseUrl: "https://gateway.test",
      requestIds: { of: () => "request-id" as RequestId }
    })
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const url = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`
    const answer = fetch(url)
    const [socket] = await once(server, "connection") as [net.Socket]
    // Node parses a request when it reads it.
    while (socket.bytesRead === 0) await new Promise(setImmediate)
    server.on("request", (_request, response) => response.end("answered"))
    assert.strictEqual(await (await answer).text(), "answered")
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
})

describe("The failure to listen on a shared port", () => {
  const messageOf = (code: string, reusePort: boolean) =>
    String(
      (explainListenFailure(new ServeError({ cause: Object.assign(new Error("listen"), { code }) }), {
        host: "127.0.0.1",
        port: 3000,
        reusePort
      }).cause as Error).message
    )

  it("names the setting on a system that cannot share it", () => {
    assert.strictEqual(
      messageOf("ENOTSUP", true),
      "cannot listen on 127.0.0.1:3000: the system does not share a port among processes. Set REUSE_PORT to false"
    )
  })

  it("says which processes do not share it", () => {
    assert.include(messageOf("EADDRINUSE", true), "without REUSE_PORT or as another user")
    assert.include(messageOf("EADDRINUSE", false), "Set PORT to a free port")
  })
})
