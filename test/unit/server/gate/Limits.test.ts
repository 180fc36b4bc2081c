/**
 * The gateway limits headers, target, body and time, and answers above a limit with the right problem. The tests send
 * bytes over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { heldStore, makeHeld } from "../../../fixtures/http/HeldRequests.ts"
import { fixedId, fixedToken, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, memoryGateway, sendLast } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const host = "Host: gateway.test\r\n"
const list = "/v1/operations"

layer(memoryGateway(), { excludeTestServices: true })("The limits", (it) => {
  it.effect("allow a header section of 16 KiB: above that is 431 headers_too_large", () =>
    Effect.gen(function*() {
      const { listener, send, sendBytes } = yield* Gateway
      assert.strictEqual((yield* send("/healthz", { headers: { "x-filler": "a".repeat(15_000) } })).status, 200)
      const tooLarge = [
        `GET /healthz HTTP/1.1\r\n${host}X-Filler: ${"a".repeat(16_384)}\r\n\r\n`,
        `GET /healthz HTTP/1.1\r\n${host}${"X-Filler: a\r\n".repeat(2000)}\r\n`,
        `GET /healthz HTTP/1.1\r\n${host}${"a".repeat(20_000)}: b\r\n\r\n`,
        `\r\n\r\nGET /healthz HTTP/1.1\r\n${host}X-Filler: ${"a".repeat(20_000)}\r\n\r\n`,
        `GET /healthz?${"a".repeat(8183)} HTTP/1.1\r\n${host}X-Filler: ${"a".repeat(8192)}\r\n\r\n`
      ]
      for (const bytes of tooLarge) {
        const answer = yield* sendBytes(bytes, "GET", "/healthz")
        assertProblemOf(answer, "headers_too_large")
        assert.strictEqual(answer.headers["connection"], "close")
      }
      assert.isFalse(listener.requestTimeout === 0)
    }))

  it.effect("allow a target of 8192 characters: one more is 414 uri_too_long, on any path and with any method", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      const sized = (start: string, length: number) => start + "a".repeat(length - start.length)
      for (const start of ["/", "/healthz?x=", `${list}?page_token=`, `${list}/`, "/problems/"]) {
        for (const method of ["GET", "POST", "OPTIONS"]) {
          assert.notStrictEqual((yield* send(sized(start, 8192), { token, method })).status, 414)
          assertProblemOf(yield* send(sized(start, 8193), { token, method }), "uri_too_long")
        }
        assert.strictEqual((yield* send(sized(start, 8193), { method: "HEAD" })).status, 414)
      }
    }))

  it.effect("of the target come first, in a header section above 16 KiB, too", () =>
    Effect.gen(function*() {
      const { sendBytes, wire } = yield* Gateway
      const rest = ` HTTP/1.1\r\n${host}X-Filler: ${"a".repeat(8192)}\r\n\r\n`
      for (const before of ["", "\r\n", "\r\n\r\n"]) {
        for (const length of [8192, 16_383, 16_384, 20_000, 70_000]) {
          const answer = yield* sendBytes(`${before}GET /${"a".repeat(length)}${rest}`)
          assertProblemOf(answer, "uri_too_long")
          assert.strictEqual(answer.headers["connection"], "close")
        }
      }
      const connection = yield* wire
      connection.send(`GET /healthz HTTP/1.1\r\n${host}\r\n`)
      assert.strictEqual((yield* Effect.promise(() => connection.next()))!.status, 200)
      connection.send(`\r\nGET /${"a".repeat(10_000)}`)
      connection.send("a".repeat(10_000))
      assertProblemOf((yield* Effect.promise(() => connection.next()))!, "uri_too_long")
    }))

  it.effect("leave room for the longest valid query, and bound a page token by the target alone", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      yield* accept(holder)
      const instant = "2026-01-31T12%3A00%3A00.123456789%2B00%3A00"
      const query = [
        ...specifiedStates.map((state) => `state=${state}`),
        `type=${"a".repeat(64)}`,
        `created_after=${instant}`,
        `created_before=${instant}`,
        `idempotency_key=${"%7E".repeat(255)}`,
        "page_size=100"
      ].join("&")
      assert.strictEqual((yield* send(`${list}?${query}`, { token: holder.token })).status, 200)
      const forged = `${list}?${query}&page_token=`.padEnd(8192, "a")
      assertProblemOf(yield* send(forged, { token: holder.token }), "invalid_page_token")
    }))

  it.effect("allow an announced body of 64 KiB: above that is 413, below it 422, because no body is expected", () =>
    Effect.gen(function*() {
      const { send, sendBytes } = yield* Gateway
      const { token } = yield* issue()
      for (const target of ["/healthz", "/readyz", "/problems", list]) {
        const send65 = (length: number) =>
          send(target, { token, headers: { "content-length": String(length) }, body: "a".repeat(length) })
        assertProblemOf(yield* send65(65_536), "invalid_request")
        assertProblemOf(yield* send65(65_537), "payload_too_large")
        // The gateway does not read a body without an announced length.
        const chunked = { token, headers: { "transfer-encoding": "chunked" }, body: "a".repeat(200_000) }
        assertProblemOf(yield* send(target, chunked), "invalid_request")
      }
      for (const length of ["99999999999", "18446744073709551615"]) {
        const bytes = `GET /nowhere HTTP/1.1\r\n${host}Content-Length: ${length}\r\n\r\n`
        assertProblemOf(yield* sendBytes(bytes, "GET", "/nowhere"), "payload_too_large")
      }
    }))

  it.effect("of time exceed those of load balancers, so that the balancer closes its connections first", () =>
    Effect.gen(function*() {
      const { listener } = yield* Gateway
      assert.strictEqual(listener.headersTimeout, 10_000)
      assert.strictEqual(listener.requestTimeout, 15_000)
      assert.strictEqual(listener.keepAliveTimeout, 65_000)
      assert.strictEqual(listener.timeout, 120_000)
    }))
})

/** The same listener with short timeouts. */
const hasty = memoryGateway({
  configure: (server) =>
    Object.assign(server, { headersTimeout: 50, requestTimeout: 60, connectionsCheckingInterval: 10 })
})

layer(hasty, { excludeTestServices: true })("A request that does not arrive in time", (it) => {
  it.effect.each(["", "GET", "GET /healthz HTTP/1.1\r\n", `GET /healthz HTTP/1.1\r\n${host}X-Slow: `])(
    "is 408 request_timeout, which is safe to retry, and ends the connection: %j",
    (beginning) =>
      Effect.gen(function*() {
        const answer = yield* sendLast(beginning, beginning.includes("\r\n") ? "/healthz" : "/")
        assert.isTrue(assertProblemOf(answer, "request_timeout").retryable)
      })
  )
})

describe("A request that arrived in time", () => {
  it.live("is not refused because its answer takes longer than requests may", () => {
    const held = makeHeld()
    return withServices(heldStore(held), ({ listener, send, wire }) =>
      Effect.gen(function*() {
        const answer = yield* Effect.forkChild(send(`/v1/operations/${fixedId}`, { token: fixedToken }))
        yield* held.entered(1)
        Object.assign(listener, { headersTimeout: 1, requestTimeout: 1 })
        // The listener looks at its connections: it refuses this one, which sends nothing.
        const silent = yield* wire
        assertProblemOf((yield* Effect.promise(() => silent.next()))!, "request_timeout")
        held.release()
        assert.strictEqual((yield* Fiber.join(answer)).status, 200)
      }), {
      configure: (server) => Object.assign(server, { connectionsCheckingInterval: 10 }),
      lifecycle: { deadline: 60_000 }
    })
  })
})
