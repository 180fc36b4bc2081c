/** A response that is too long ends with a failure, and the rest of it is not read. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { RequestListener } from "node:http"
import { gzipSync } from "node:zlib"
import { cappedFetch } from "../../../src/http/exchangeLimits.ts"
import { serving } from "../../fixtures/http/listening.ts"

const limit = 1_000_000

/** The response to a request. Its body is not read yet. */
const fetched = (answer: RequestListener) =>
  Effect.flatMap(serving(answer), (url) => Effect.promise(() => cappedFetch(limit)(url)))

const textOf = (response: Response) => Effect.promise(() => response.text().then((text) => text, String))

describe("cappedFetch", () => {
  it.live("returns a body of the limit, with status and headers", () =>
    Effect.gen(function*() {
      const response = yield* fetched((_request, response) => {
        response.writeHead(404, { "content-type": "application/json", etag: "\"1\"" }).end("x".repeat(limit))
      })
      assert.deepStrictEqual([response.status, response.headers.get("etag")], [404, "\"1\""])
      assert.strictEqual((yield* textOf(response)).length, limit)
    }))

  it.live("returns a response without a body", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* fetched((_request, response) => response.writeHead(304).end())).status, 304)
    }))

  it.live("counts what was compressed", () =>
    Effect.gen(function*() {
      const response = yield* fetched((_request, response) => {
        response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("x".repeat(limit + 1)))
      })
      assert.match(yield* textOf(response), /longer than 1000000 bytes/)
    }))

  it.live("stops reading an endless body", () =>
    Effect.gen(function*() {
      const closed = Promise.withResolvers<void>()
      const response = yield* fetched((_request, response) => {
        response.on("close", closed.resolve)
        const write = () => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536))) { /* Until the client reads no more. */ }
        }
        response.on("drain", write)
        write()
      })
      assert.match(yield* textOf(response), /longer than 1000000 bytes/)
      yield* Effect.promise(() => closed.promise)
    }))
})
