/** Plain requests have no rules of their own: they share the limits of all others, and end as all others do. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import { isInetAddress } from "effect/net/NetAddress"
import { createListener } from "../../../../src/node/http/NodeListener.ts"
import { layerOn } from "../../../../src/node/http/NodeServer.ts"
import { Platform } from "../../../../src/node/process/runProgram.ts"
import { Lifecycle, type LifecycleOptions } from "../../../../src/server/gate/Lifecycle.ts"
import { RequestIds } from "../../../../src/services/RequestIds.ts"
import { assertFreeSlots, recordPlain } from "../../../fixtures/http/BothWays.ts"
import { heldStore, makeHeld, readOf, reads } from "../../../fixtures/http/HeldRequests.ts"
import { fixedGateway, fixedId, fixedIdentity, fixedToken, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, type GatewayOptions } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"

const read = `/v1/operations/${fixedId}`

describe("The way of plain requests", () => {
  it.live("closes with the gateway", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(fixedGateway({}), scope)
      const { listener } = Context.get(context, Gateway)
      assert.isNotNull(listener.plain)
      yield* Scope.close(scope, Exit.void)
      assert.isNull(listener.plain)
    }))

  const all: Readonly<Record<string, GatewayOptions>> = {
    "with quotas": { rateLimits: { quota: { requests: 10, window: 1, burst: 10 } } },
    "while spans are created": { spans: true }
  }
  it.live.each(Object.keys(all))(
    "has no exception: %s",
    (name) =>
      withServices({}, ({ listener, send }) =>
        Effect.gen(function*() {
          const taken = recordPlain(listener)
          assert.strictEqual((yield* send(read, { token: fixedToken })).status, 200)
          assert.deepStrictEqual(taken, [true])
        }), all[name])
  )
})

it.live("A plain request gets the cookies of its response", () =>
  Effect.scoped(Effect.gen(function*() {
    const listener = createListener({ baseUrl: "http://gateway.test", requestIds: yield* RequestIds })
    const response = HttpServerResponse.setCookieUnsafe(HttpServerResponse.text("answer"), "name", "value")
    const served = HttpServer.serve(Effect.succeed(response)).pipe(
      Layer.provideMerge(layerOn(listener, { host: "127.0.0.1", port: 0 }))
    )
    const { address } = Context.get(yield* Layer.build(served), HttpServer.HttpServer)
    const taken = recordPlain(listener)
    const { headers } = yield* Effect.promise(() => fetch(`http://127.0.0.1:${isInetAddress(address) && address.port}`))
    assert.deepStrictEqual(headers.getSetCookie(), ["name=value"])
    assert.deepStrictEqual(taken, [true])
  })).pipe(Effect.provide(Platform)))

/** A read that is not plain. */
const adapted = (target: string) => readOf(target, "Content-Length: 0\r\n")

/** Sends the bytes on a new connection. */
const ask = (bytes: string) =>
  Effect.gen(function*() {
    const wire = yield* (yield* Gateway).wire
    wire.send(bytes)
    return wire
  })

describe("While the gateway drains", () => {
  it.live("each answer closes its connection", () => {
    const held = makeHeld()
    return withServices(heldStore(held), ({ listener, wire }) =>
      Effect.gen(function*() {
        const taken = recordPlain(listener)
        const lifecycle = yield* Lifecycle
        const kept = yield* Effect.all(Array.from({ length: 3 }, () => wire))
        for (const one of kept) {
          one.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
          assert.strictEqual((yield* Effect.promise(() => one.next()))!.headers["connection"], "keep-alive")
        }
        const running = yield* ask(readOf(read))
        yield* held.entered(1)
        assert.deepStrictEqual(taken, [true, true, true, true])
        const draining = yield* Effect.forkChild(lifecycle.drain, { startImmediately: true })
        for (const [index, target] of ["/healthz", ...reads].entries()) {
          kept[index]!.send(readOf(target))
          const answer = (yield* Effect.promise(() => kept[index]!.next()))!
          assert.strictEqual(answer.status, index === 0 ? 200 : 503, target)
          assert.strictEqual(answer.headers["connection"], "close", target)
          assert.strictEqual(yield* Effect.promise(() => kept[index]!.closed), "")
        }
        assert.deepStrictEqual(taken.slice(4), [true, true, true])
        held.release()
        const answer = (yield* Effect.promise(() => running.next()))!
        assert.deepStrictEqual([answer.status, answer.headers["connection"]], [200, "close"])
        assert.strictEqual(yield* Effect.promise(() => running.closed), "")
        yield* Fiber.join(draining)
      }), { lifecycle: { drainTimeout: 120_000 } })
  })
})

describe("Plain requests and all others", () => {
  const limits: Readonly<Record<string, readonly [Partial<LifecycleOptions>, detail: RegExp]>> = {
    "of all requests": [{ maxInFlight: 4 }, /^Too many requests are running/],
    "of one client": [{ maxInFlightPerClient: 4 }, /^The client has too many running requests/]
  }
  it.live.each(Object.keys(limits))("share the limit %s", (name) => {
    const held = makeHeld()
    const [lifecycle, detail] = limits[name]!
    return withServices(heldStore(held), ({ listener }) =>
      Effect.gen(function*() {
        const taken = recordPlain(listener)
        const requests = reads.flatMap((target) => [readOf(target), adapted(target)])
        const running = yield* Effect.forEach(requests, ask)
        yield* held.entered(4)
        for (const request of requests) {
          const refused = yield* ask(request)
          const answer = yield* Effect.promise(() => refused.next())
          assert.match(assertProblemOf(answer!, "service_unavailable").detail, detail)
        }
        assert.deepStrictEqual(taken, [true, false, true, false, true, false, true, false])
        held.release()
        for (const wire of running) assert.strictEqual((yield* Effect.promise(() => wire.next()))!.status, 200)
        yield* assertFreeSlots(yield* Lifecycle, fixedIdentity.client_id, 4)
      }), { lifecycle })
  })
})

describe("A client that leaves before the answer", () => {
  it.live("ends its read, also one behind an answer, and no log line tells of it", () => {
    const held = makeHeld()
    return withServices(heldStore(held), ({ listener }, { lines }) =>
      Effect.gen(function*() {
        const taken = recordPlain(listener)
        const wire = yield* ask(readOf("/healthz") + readOf(read))
        assert.strictEqual((yield* Effect.promise(() => wire.next()))!.status, 200)
        yield* held.entered(1)
        wire.destroy()
        yield* held.interrupted(1)
        yield* assertFreeSlots(yield* Lifecycle, fixedIdentity.client_id, 2)
        assert.deepStrictEqual(taken, [true, true])
        assert.deepStrictEqual(lines, [])
      }), { lifecycle: { maxInFlight: 2, maxInFlightPerClient: 2 } })
  })
})

describe("A read whose store answers at once", () => {
  it.live("is answered in the turn of the event loop in which it arrived, because it needs no second fiber", () =>
    withServices({}, ({ listener, send }) =>
      Effect.gen(function*() {
        const ended: Array<boolean> = []
        const { plain } = listener
        listener.plain = (request, response) => {
          const isTaken = plain!(request, response)
          if (isTaken) ended.push(response.writableEnded)
          return isTaken
        }
        // Called after the listener of the adapter.
        listener.on("request", (_, response) => ended.push(response.writableEnded))
        for (const headers of [{}, { "content-length": "0" }]) {
          for (const target of reads) {
            assert.strictEqual((yield* send(target, { token: fixedToken, headers })).status, 200)
          }
        }
        assert.deepStrictEqual(ended, [true, true, true, true])
      })))
})

describe("Bytes that are no request", () => {
  const before: Readonly<Record<string, string>> = {
    "that is plain": readOf(read),
    "with a body": adapted(read),
    "with an expectation": readOf(read, "Expect: 100-continue\r\n")
  }
  it.live.each(Object.keys(before))("get no answer before that of the read before them: %s", (name) => {
    const held = makeHeld()
    return withServices(heldStore(held), () =>
      Effect.gen(function*() {
        const wire = yield* ask(before[name]!)
        yield* held.entered(1)
        wire.send("nonsense\r\n\r\n")
        // The listener has read the bytes before once it answers this connection.
        const other = yield* ask("nonsense\r\n\r\n")
        assertProblemOf((yield* Effect.promise(() => other.next()))!, "malformed_request")
        held.release()
        const answer = (yield* Effect.promise(() => wire.next()))!
        assert.strictEqual(answer.status, 200)
        const next = yield* Effect.promise(() => wire.next())
        // Node closes the connection after a request whose expectation was not met.
        if (answer.headers["connection"] === "close") assert.isNull(next)
        else assertProblemOf(next!, "malformed_request")
      }))
  })
})
