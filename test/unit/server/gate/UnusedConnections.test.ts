/** A server that closes waits for no connection on which no request has begun. The test opens one, and never closes it. */
import { assert, describe, it } from "@effect/vitest"
import { once } from "node:events"
import * as net from "node:net"
import type { RequestId } from "../../../../src/domain/RequestId.ts"
import { createListener } from "../../../../src/node/http/NodeListener.ts"

describe("A server that closes", () => {
  it("closes connections on which nothing has arrived", async () => {
    const server = createListener({
      baseUrl: "https://gateway.test",
      requestIds: { of: () => "request-id" as RequestId }
    })
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const client = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1")
    const ended = once(client, "close")
    await Promise.all([once(client, "connect"), once(server, "connection")])
    client.resume().on("error", () => {})
    await new Promise<void>((resolve) => server.close(() => resolve()))
    await ended
    assert.isTrue(client.destroyed)
  })
})
