/**
 * No connection stays open without complete requests, and the number of connections is limited. The tests speak to
 * gateways over raw sockets, with short time-outs and low limits.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import type { Server } from "node:http"
import type * as net from "node:net"
import type { RequestId } from "../../../src/domain/RequestId.ts"
import { createListener, type ListenerOptions } from "../../../src/node/http/NodeListener.ts"
import { Gateway, memoryGateway } from "../../fixtures/http/HttpGateway.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { openWire, type Wire } from "../../fixtures/http/HttpWire.ts"
import { run } from "../../fixtures/processes/CommandLine.ts"

const host = "Host: gateway.test\r\n"
const request = `GET /healthz HTTP/1.1\r\n${host}\r\n`
const withBody = `POST /healthz HTTP/1.1\r\n${host}Content-Length: 2\r\n\r\n{}`

/** Checks its connections often; their time-outs stay as they are, so that a busy machine is in time. */
const vigilant = (server: Server) => Object.assign(server, { connectionsCheckingInterval: 10 })

/** Runs the effect while the server waits for requests only briefly. */
const inHurry = <A, E, R>(server: Server, effect: Effect.Effect<A, E, R>) => {
  const { headersTimeout } = server
  return Effect.acquireUseRelease(
    Effect.sync(() => Object.assign(server, { headersTimeout: 50 })),
    () => effect,
    () => Effect.sync(() => Object.assign(server, { headersTimeout }))
  )
}

/** Sends the bytes again and again until the server closes the connection. */
const trickle = async (wire: Wire, bytes: string) => {
  while (wire.isOpen()) {
    wire.send(bytes)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

layer(memoryGateway({ configure: vigilant }), { excludeTestServices: true })(
  "A connection on which no request is completed in time",
  (it) => {
    it.effect.each([
      { name: "only empty lines", first: "", answers: 0, bytes: "\r\n", status: 408 },
      { name: "only letters", first: "", answers: 0, bytes: "G", status: 400 },
      { name: "a request, then empty lines", first: request, answers: 1, bytes: "\r\n", status: 408 },
      { name: "a request, then line feeds", first: request, answers: 1, bytes: "\n", status: 408 },
      { name: "a request, then carriage returns", first: request, answers: 1, bytes: "\r", status: 408 },
      { name: "two requests, then empty lines", first: request + request, answers: 2, bytes: "\r\n", status: 408 },
      { name: "a body, then empty lines", first: withBody, answers: 1, bytes: "\r\n", status: 408 },
      { name: "a request, then half of one", first: request + request.slice(0, -2), answers: 1, bytes: "", status: 408 }
    ])("is answered with a problem and closed: $name", ({ answers, bytes, first, status }) =>
      Effect.gen(function*() {
        const { check, listener, wire } = yield* Gateway
        const connection = yield* wire
        connection.send(first)
        for (let n = 0; n < answers; n++) assert.isNotNull(yield* Effect.promise(() => connection.next()))
        yield* inHurry(listener, Effect.promise(() => trickle(connection, bytes)))
        const answer = yield* Effect.promise(() => connection.next())
        check({ method: "GET", target: "/" }, answer!)
        assert.strictEqual(answer!.status, status)
        assert.strictEqual(answer!.headers["connection"], "close")
      }))

    it.effect("stays open if it is only silent between requests, or sends one empty line", () =>
      Effect.gen(function*() {
        const { listener, wire } = yield* Gateway
        const open = Effect.tap(wire, (connection) => {
          connection.send(request)
          return Effect.map(
            Effect.promise(() => connection.next()),
            (answer) => assert.strictEqual(answer?.status, 200)
          )
        })
        /** After this connection was closed, the time of every earlier one has passed too. */
        const untilClosed = Effect.flatMap(open, (connection) => Effect.promise(() => trickle(connection, "\r\n")))
        const silent = yield* open
        const oldFashioned = yield* open
        yield* inHurry(
          listener,
          untilClosed.pipe(
            Effect.andThen(Effect.sync(() => oldFashioned.send("\r\n"))),
            Effect.andThen(untilClosed)
          )
        )
        for (const connection of [silent, oldFashioned]) {
          assert.isTrue(connection.isOpen())
          connection.send(request)
          assert.strictEqual((yield* Effect.promise(() => connection.next()))?.status, 200)
        }
      }))
  }
)

/** A listener that answers every request, and closes with the scope. */
const listening = (options: Partial<ListenerOptions>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = createListener({ baseUrl, requestIds: { of: () => "request-id" as RequestId }, ...options })
      server.on("request", (_request, response) => response.end("ok"))
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      return { server, port: (server.address() as net.AddressInfo).port }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        server.close()
        await once(server, "close")
      })
  )

const ask = async (wire: Wire) => {
  wire.send(request)
  return (await wire.next())?.status ?? null
}

describe("Connections", () => {
  it.live("beyond the limit are closed without an answer, and connections within it stay open", () =>
    Effect.scoped(Effect.gen(function*() {
      const { port } = yield* listening({ maxConnections: 3 })
      const within = yield* Effect.promise(() => Promise.all([1, 2, 3].map(() => openWire(port))))
      for (const wire of within) assert.strictEqual(yield* Effect.promise(() => ask(wire)), 200)
      for (let more = 0; more < 20; more++) {
        const wire = yield* Effect.promise(() => openWire(port))
        assert.strictEqual(yield* Effect.promise(() => ask(wire)), null)
      }
      for (const wire of within) assert.strictEqual(yield* Effect.promise(() => ask(wire)), 200)
      within[0]!.destroy()
      const next = Effect.promise(async () => ask(await openWire(port)))
      // Until the server has noticed the closed connection.
      assert.strictEqual(yield* Effect.repeat(next, { until: (status) => status === 200 }), 200)
    })))

  it.live("that were closed are logged in one line for many of them", () =>
    Effect.scoped(Effect.gen(function*() {
      const told: Array<number> = []
      const { port } = yield* listening({ maxConnections: 1, onDropped: (count) => told.push(count) })
      const within = yield* Effect.promise(() => openWire(port))
      assert.strictEqual(yield* Effect.promise(() => ask(within)), 200)
      for (let more = 0; more < 50; more++) {
        yield* Effect.promise(async () => (await openWire(port)).closed)
      }
      assert.deepStrictEqual(told, [1])
    })))

  it.live("are limited to 10,000 by default", () =>
    Effect.scoped(Effect.gen(function*() {
      assert.strictEqual((yield* listening({})).server.maxConnections, 10_000)
    })))

  it.live("need a number as their limit: otherwise the gateway does not start, and names the reason in one line", () =>
    Effect.gen(function*() {
      const wrong = [
        [["--max-connections", "0"], {}],
        [["--max-connections", "many"], {}],
        [[], { MAX_CONNECTIONS: "-1" }]
      ] as const
      for (const [args, env] of wrong) {
        const { code, stderr } = yield* run(["serve", ...args], { DATABASE_URL: "postgres:///x", ...env })
        assert.strictEqual(code, 1)
        assert.match(stderr, /^error: .*at least 1.*\n$/)
      }
    }))
})
