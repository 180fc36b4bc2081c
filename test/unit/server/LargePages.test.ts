/**
 * A stranger who reads the pages of the documentation again and again costs little: they are compressed once, and 304 answers a reader
 * who holds them. The tests ask over sockets.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import * as http from "node:http"
import * as zlib from "node:zlib"
import { preferredCoding } from "../../../src/server/gate/RequestChecks.ts"
import { makeStatic } from "../../../src/server/StaticContent.ts"
import { ConsoleScene } from "../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../fixtures/console/ConsoleServer.ts"
import { Gateway, memoryGateway } from "../../fixtures/http/HttpGateway.ts"

type Headers = Readonly<Record<string, string>>

/** The whole response, with the body as it came. */
const ask = (port: number, path: string, headers: Headers = {}, method = "GET") =>
  Effect.promise(() =>
    new Promise<{ status: number; headers: http.IncomingHttpHeaders; body: Buffer }>((resolve, reject) => {
      const sent = http.request({ host: "127.0.0.1", port, path, method, headers, agent: false }, (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk: Buffer) => chunks.push(chunk))
        response.on(
          "end",
          () => resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(chunks) })
        )
      })
      sent.on("error", reject).end()
    })
  )

const decoders: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  br: zlib.brotliDecompressSync,
  gzip: zlib.gunzipSync
}

/** Checks all forms of a page, and their tags. */
const checkForms = Effect.fnUntraced(function*(port: number, path: string) {
  const plain = yield* ask(port, path)
  assert.strictEqual(plain.status, 200)
  assert.notProperty(plain.headers, "content-encoding")
  const tags = new Set([plain.headers.etag])
  for (const [coding, decode] of Object.entries(decoders)) {
    const { body, headers, status } = yield* ask(port, path, { "accept-encoding": coding })
    assert.deepStrictEqual([status, headers["content-encoding"]], [200, coding])
    assert.isTrue(decode(body).equals(plain.body), `${path} ${coding}`)
    tags.add(headers.etag)
    const { vary, "cache-control": cached, "content-security-policy": policy, "content-type": type } = headers
    assert.deepStrictEqual(
      { vary, cached, policy, type },
      {
        vary: "accept-encoding",
        cached: plain.headers["cache-control"],
        policy: plain.headers["content-security-policy"],
        type: plain.headers["content-type"]
      }
    )
    for (const held of [headers.etag!, `W/${headers.etag}`, `"other", ${headers.etag}`, "*"]) {
      const again = yield* ask(port, path, { "accept-encoding": coding, "if-none-match": held })
      assert.deepStrictEqual([again.status, again.body.byteLength], [304, 0], held)
      assert.deepStrictEqual(
        [again.headers.etag, again.headers.vary, again.headers["cache-control"]],
        [headers.etag, vary, cached]
      )
    }
    for (const held of [plain.headers.etag!, "\"other\"", ""]) {
      assert.strictEqual(
        (yield* ask(port, path, { "accept-encoding": coding, "if-none-match": held })).status,
        200,
        held
      )
    }
    const head = yield* ask(port, path, { "accept-encoding": coding }, "HEAD")
    assert.deepStrictEqual([head.status, head.headers.etag, head.body.byteLength], [200, headers.etag, 0])
  }
  // A strong tag names the bytes of one form.
  assert.strictEqual(tags.size, 3)
  return plain.body.byteLength
})

layer(memoryGateway(), { excludeTestServices: true })("The documentation", (it) => {
  it.effect("comes compressed to those who take it so, and as 304 to those who hold it", () =>
    Effect.gen(function*() {
      const { port } = yield* Gateway
      yield* checkForms(port, "/openapi.json")
      const size = yield* checkForms(port, "/docs")
      assert.isAbove(size, 1_000_000)
      const { body } = yield* ask(port, "/docs", { "accept-encoding": "gzip, deflate, br, zstd" })
      assert.isBelow(body.byteLength, size / 3)
    }))
})

describe("Static content", () => {
  it.effect("is made once for readers who come together, also when the first one leaves", () =>
    Effect.gen(function*() {
      let made = 0
      const begun = yield* Deferred.make<void>()
      const ready = yield* Deferred.make<void>()
      const answer = yield* makeStatic(Effect.gen(function*() {
        made++
        yield* Deferred.succeed(begun, undefined)
        yield* Deferred.await(ready)
        return { contentType: "text/plain", bytes: new Uint8Array(10) }
      }))
      const first = yield* Effect.forkChild(answer)
      yield* Deferred.await(begun)
      const second = yield* Effect.forkChild(answer)
      const leaving = yield* Effect.forkChild(Fiber.interrupt(first))
      yield* Effect.yieldNow
      yield* Deferred.succeed(ready, undefined)
      assert.strictEqual((yield* Fiber.join(second))({}).status, 200)
      yield* Fiber.join(leaving)
      assert.strictEqual((yield* answer)({}).status, 200)
      assert.strictEqual(made, 1)
    }))
})

describe("The files of the console", () => {
  it.live("are compressed in the same way, and cached for ever", () =>
    Effect.gen(function*() {
      const { port } = yield* ConsoleServer
      yield* checkForms(port, "/console/assets/console-1a2b3c.js")
      const { headers } = yield* ask(port, "/console/assets/console-1a2b3c.js")
      assert.strictEqual(headers["cache-control"], "public, max-age=31536000, immutable")
    }).pipe(Effect.provide(Layer.provideMerge(consoleServer(ConsoleScene.services), ConsoleScene.layer))))
})

describe("The coding of a response", () => {
  it.each([
    [undefined, "identity"],
    ["", "identity"],
    ["br", "br"],
    ["gzip, deflate, br, zstd", "br"],
    ["gzip", "gzip"],
    ["GZIP", "gzip"],
    ["*", "br"],
    ["br;q=0", "identity"],
    ["br;q=0, gzip", "gzip"],
    ["br;q=0, *", "gzip"],
    ["br;q=0.0, gzip;q=0.000", "identity"],
    ["gzip;q=1.0, br;q=0.5", "gzip"],
    ["identity, br;q=0.5", "identity"],
    ["identity;q=0", "identity"],
    ["*;q=0", "identity"],
    ["deflate, zstd", "identity"],
    [`br, ${"x".repeat(1024)}`, "identity"]
  ])("for Accept-Encoding %j is %s", (accepted, coding) => {
    assert.strictEqual(preferredCoding({ "accept-encoding": accepted }), coding)
  })
})
