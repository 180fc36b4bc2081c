/** A response that is too long ends with a failure, and the rest of it is not read. */
import { assert, describe, it } from "@effect/vitest"
import { once } from "node:events"
import * as http from "node:http"
import type { AddressInfo } from "node:net"
import { gzipSync } from "node:zlib"
import { cappedFetch } from "../../../src/http/exchangeLimits.ts"

const limit = 1_000_000

/** Serves one response, and stops. */
const withServer = async <A>(answer: http.RequestListener, use: (url: string) => Promise<A>): Promise<A> => {
  const server = http.createServer(answer).listen(0, "127.0.0.1")
  await once(server, "listening")
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const failureOf = (read: Promise<unknown>) => read.then(() => null, (error: unknown) => error)

describe("cappedFetch", () => {
  it("returns a body of the limit, with status and headers", () =>
    withServer((_request, response) => {
      response.writeHead(404, { "content-type": "application/json", etag: "\"1\"" }).end("x".repeat(limit))
    }, async (url) => {
      const response = await cappedFetch(limit)(url)
      assert.deepStrictEqual([response.status, response.headers.get("etag")], [404, "\"1\""])
      assert.strictEqual((await response.text()).length, limit)
    }))

  it("returns a response without a body", () =>
    withServer((_request, response) => response.writeHead(304).end(), async (url) => {
      assert.strictEqual((await cappedFetch(limit)(url)).status, 304)
    }))

  it("counts what was compressed", () =>
    withServer((_request, response) => {
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("x".repeat(limit + 1)))
    }, async (url) => {
      const response = await cappedFetch(limit)(url)
      assert.match(String(await failureOf(response.text())), /longer than 1000000 bytes/)
    }))

  it("stops reading an endless body", () => {
    const closed = Promise.withResolvers<void>()
    return withServer((_request, response) => {
      response.on("close", closed.resolve)
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536))) { /* Until the client reads no more. */ }
      }
      response.on("drain", write)
      write()
    }, async (url) => {
      const response = await cappedFetch(limit)(url)
      assert.match(String(await failureOf(response.text())), /longer than 1000000 bytes/)
      await closed.promise
    })
  })
})
