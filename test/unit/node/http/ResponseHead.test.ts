/**
 * The head of a response is what Node's `writeHead` makes of it. A new version of Node that makes another one fails here.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { IncomingMessage, ServerResponse } from "node:http"
import { Socket } from "node:net"
import { setHead } from "../../../../src/node/http/ResponseHead.ts"

const keepAlive = 65_000

/** A response as Node's server makes it. */
const newResponse = () =>
  Object.assign(new ServerResponse(new IncomingMessage(new Socket())), {
    shouldKeepAlive: true,
    _keepAliveTimeout: keepAlive
  })

const headOf = (response: ServerResponse): string =>
  String((response as unknown as { _header: unknown })._header).replace(/\r\nDate: [^\r]* GMT\r\n/, "\r\nDate: now\r\n")

describe("The head of a response", () => {
  it("is the one of `writeHead`, whether a value is new, repeated or changed", () => {
    for (const [status, etag] of [[200, "1"], [200, "1"], [404, "2"], [299, "1"]] as const) {
      const headers = { "content-type": "application/json", "content-length": "2", etag }
      const [own, nodes] = [newResponse(), newResponse()]
      assert.isTrue(setHead(own, status, headers, keepAlive))
      nodes.writeHead(status, headers)
      assert.strictEqual(headOf(own), headOf(nodes))
      assert.strictEqual(own.statusCode, status)
      assert.isTrue(own.headersSent)
    }
  })

  it("is left to `writeHead` if the connection ends, or Node has a part in a header", () => {
    const closing = newResponse()
    closing.shouldKeepAlive = false
    assert.isFalse(setHead(closing, 200, { "content-length": "2" }, keepAlive))
    for (const name of ["connection", "date", "keep-alive", "transfer-encoding", "trailer", "expect", "upgrade"]) {
      const response = newResponse()
      assert.isFalse(setHead(response, 200, { [name]: "x" }, keepAlive), name)
      assert.isFalse(response.headersSent)
    }
  })

  it("has no name and no value that HTTP does not allow, also after valid ones of the same name", () => {
    for (const headers of [{ "a b": "c" }, { etag: "a\r\nb: c" }, { etag: "ж" }, { "x\r\ny": "z" }]) {
      const response = newResponse()
      setHead(newResponse(), 200, { etag: "valid" }, keepAlive)
      assert.throws(() => setHead(response, 200, headers, keepAlive))
      assert.isFalse(response.headersSent)
    }
  })

  it("has the time of its second", (context) => {
    const dateAt = (time: number) => {
      vi.setSystemTime(time)
      const response = newResponse()
      setHead(response, 200, {}, keepAlive)
      return /Date: ([^\r]*)/.exec(String((response as unknown as { _header: unknown })._header))?.[1]
    }
    vi.useFakeTimers({ toFake: ["Date"] })
    context.onTestFinished(() => void vi.useRealTimers())
    assert.strictEqual(dateAt(Date.UTC(2026, 0, 31, 12, 0, 0, 999)), "Sat, 31 Jan 2026 12:00:00 GMT")
    assert.strictEqual(dateAt(Date.UTC(2026, 0, 31, 12, 0, 1)), "Sat, 31 Jan 2026 12:00:01 GMT")
    assert.strictEqual(dateAt(Date.UTC(2026, 0, 31, 12, 0, 0)), "Sat, 31 Jan 2026 12:00:00 GMT")
  })
})
