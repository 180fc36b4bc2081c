/**
 * A listener keeps requests that arrive before the routes, and names why it cannot listen. The tests open real listeners on
 * loopback.
 */
import { assert, describe, it } from "@effect/vitest"
import { once } from "node:events"
import type * as net from "node:net"
import type { RequestId } from "../../../src/domain/RequestId.ts"
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
