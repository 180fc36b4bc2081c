/**
 * A web page reads nothing of the admin listener by DNS rebinding, and idle connections do not close it. The tests speak to listeners
 * over sockets.
 */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { once } from "node:events"
import type { IncomingMessage, ServerResponse } from "node:http"
import * as net from "node:net"
import type { RequestId } from "../../../../src/domain/RequestId.ts"
import { createListener } from "../../../../src/node/http/NodeListener.ts"
import { exchange } from "../../../fixtures/console/Visitor.ts"
import { AdminWire } from "../../../fixtures/metrics/AdminWire.ts"

const more = {
  routes: HttpRouter.add("GET", "/console/*", HttpServerResponse.text("the console")),
  paths: [{ path: "/console/*", methods: ["GET"] }] as const,
  pages: [],
  hosts: ["console.example"]
}

const paths = ["/metrics", "/", "/console/x", "/unknown", "/metrics/"]

const allowing = (hosts: string) => ConfigProvider.layer(ConfigProvider.fromUnknown({ ADMIN_ALLOWED_HOSTS: hosts }))

describe("The admin listener", () => {
  it.live("answers under loopback names with its port, and under allowed names; on no path under others", () =>
    Effect.gen(function*() {
      const { port } = yield* AdminWire
      const known = [
        `127.0.0.1:${port}`,
        `localhost:${port}`,
        `LOCALHOST:${port}`,
        `[::1]:${port}`,
        "console.example",
        "gateway-1.internal",
        "Gateway-1.internal:8080",
        "10.0.0.5:9464"
      ]
      const foreign = [
        "evil.example",
        `evil.example:${port}`,
        "127.0.0.1",
        `127.0.0.1:${port + 1}`,
        `127.0.0.1:${port}.evil.example`,
        `localhost:${port}, evil.example`,
        `0.0.0.0:${port}`,
        `127.0.0.2:${port}`,
        "10.0.0.5",
        "10.0.0.5:9465",
        "evil.gateway-1.internal",
        "gateway-1.internal.evil.example",
        "gateway-1.internal:x",
        "",
        undefined
      ]
      for (const method of ["GET", "HEAD", "OPTIONS", "POST"]) {
        for (const path of paths) {
          for (const host of foreign) {
            const refused = yield* exchange(port, path, { method, headers: { host } })
            assert.strictEqual(refused.status, 403, `${method} ${host} ${path}`)
            assert.notInclude(refused.text, "evil")
          }
        }
      }
      for (const path of ["/metrics", "/console/x"]) {
        for (const host of known) {
          assert.strictEqual((yield* exchange(port, path, { headers: { host } })).status, 200, `${host} ${path}`)
        }
      }
    }).pipe(Effect.provide(
      AdminWire.layer(more).pipe(Layer.provide(allowing(" gateway-1.Internal, 10.0.0.5:9464 ")))
    )))

  it.live.each<[host: string, isOpen: boolean]>([["127.0.0.1", false], ["0.0.0.0", true]])(
    "answers under its own address %s, and warns if other machines may reach it: %s",
    ([host, isOpen]) => {
      const warnings: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => {
        if (logLevel === "Warn") warnings.push(String(message))
      })
      return Effect.gen(function*() {
        const { port } = yield* AdminWire
        const answer = yield* exchange(port, "/metrics", { headers: { host: `${host}:${port}` } })
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(warnings.some((text) => text.includes("not on the loopback interface")), isOpen)
      }).pipe(Effect.provide(Layer.provide(AdminWire.layer(undefined, host), Logger.layer([logger]))))
    }
  )

  it.live.each([
    "http://gateway-1.internal",
    "a b",
    "gateway-1.internal/metrics",
    "*",
    "a,,b",
    "user@host",
    "host:99999"
  ])(
    "does not start with %j as an allowed name, and says what a name is",
    (hosts) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(
          Effect.scoped(Layer.build(AdminWire.layer().pipe(Layer.provide(allowing(hosts)))))
        )
        assert.strictEqual(
          (error as Error).message,
          "ADMIN_ALLOWED_HOSTS must be host names, separated by commas, such as gateway-1.internal or 10.0.0.5:9464"
        )
      })
  )
})

/** Opens a connection that asks nothing. It opens again as it is closed, until the signal, if it is `stubborn`. */
const lurk = (port: number, stubborn: boolean, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const open = () => {
      const socket = net.connect(port, "127.0.0.1", () => resolve())
      socket.on("error", () => {}).resume()
      if (stubborn) socket.on("close", () => signal.aborted || open())
      signal.addEventListener("abort", () => socket.destroy())
    }
    open()
  })

describe("The admin listener answers each scrape", () => {
  it.live.each([
    { count: 300, stubborn: false },
    // More than it holds.
    { count: 1100, stubborn: true }
  ])(
    "beside $count idle connections, which open again as they are closed: $stubborn",
    ({ count, stubborn }) =>
      Effect.gen(function*() {
        const { port } = yield* AdminWire
        const end = new AbortController()
        yield* Effect.addFinalizer(() => Effect.sync(() => end.abort()))
        const opened = Promise.all(Array.from({ length: count }, () => lurk(port, stubborn, end.signal)))
        const scrape = exchange(port, "/metrics", { headers: { host: `127.0.0.1:${port}` } })
        assert.strictEqual((yield* scrape).status, 200)
        yield* Effect.promise(() => opened)
        for (let n = 0; n < 5; n++) assert.strictEqual((yield* scrape).status, 200)
      }).pipe(Effect.scoped, Effect.provide(AdminWire.layer()))
  )
})

const head = "Host: gateway.test\r\n"

describe("A listener that makes room", () => {
  it.live("closes connections without a running request, the oldest first, and none with one", () =>
    Effect.gen(function*() {
      const server = createListener({
        baseUrl: "https://gateway.test",
        requestIds: { of: () => "request-id" as RequestId },
        maxConnections: 7,
        makesRoom: true
      })
      const running: Array<ServerResponse> = []
      const large = Buffer.alloc(64 * 1024 * 1024)
      server.on("request", (request: IncomingMessage, response: ServerResponse) => {
        if (request.url === "/running") running.push(response)
        else response.end(request.url === "/large" ? large : "done")
      })
      const open = (bytes: string) =>
        Effect.promise(async () => {
          const arrived = once(server, "connection")
          const socket = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1").on("error", () => {})
          const [accepted] = await arrived as [net.Socket]
          const closed = new Promise((resolve) => accepted.once("close", resolve))
          if (bytes !== "") {
            socket.write(bytes)
            const isComplete = bytes.includes("\r\n\r\n")
            await once(isComplete ? server : accepted, isComplete ? "request" : "data")
          }
          return { accepted, closed, socket }
        })
      yield* Effect.acquireRelease(
        Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
        () => Effect.sync(() => server.close() && server.closeAllConnections())
      )
      const busy = [yield* open(`GET /running HTTP/1.1\r\n${head}\r\n`)]
      const unread = yield* open(`GET /large HTTP/1.1\r\n${head}\r\n`)
      const silent = yield* open("")
      const half = yield* open(`GET / HTTP/1.1\r\n${head}`)
      const unfinished = yield* open(`POST / HTTP/1.1\r\n${head}Content-Length: 9\r\n\r\n`)
      const idle = yield* open(`GET / HTTP/1.1\r\n${head}\r\n`)
      const closed: Array<string> = []
      for (const [name, { accepted }] of Object.entries({ unread, silent, half, unfinished, idle })) {
        accepted.once("close", () => closed.push(name))
      }
      // The next connection of each takes the place of one of them.
      for (const { closed: end } of [silent, half, unfinished, idle, unread]) {
        busy.push(yield* open(`GET /running HTTP/1.1\r\n${head}\r\n`))
        yield* Effect.promise(() => end)
      }
      assert.deepStrictEqual(closed, ["silent", "half", "unfinished", "idle", "unread"])
      for (const response of running) response.end("done")
      assert.lengthOf(running, busy.length)
      for (const { socket } of busy) {
        const [answer] = yield* Effect.promise(() => once(socket, "data"))
        assert.match(String(answer), /^HTTP\/1.1 200 /)
      }
    }).pipe(Effect.scoped))
})
