/** Connections are kept, pipelined, half closed and closed as RFC 9112 says. The tests send bytes over a socket. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway, memoryGateway, sendLast } from "../../../fixtures/http/HttpGateway.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const host = "Host: gateway.test\r\n"

/** One request for each kind of response that keeps the connection open. */
const requestsOf = (token: string, id: string) => {
  const authorization = `${host}Authorization: Bearer ${token}\r\n`
  const target = `/v1/operations/${id}`
  return [
    { status: 200, method: "GET", target: "/healthz", rest: `${host}\r\n` },
    { status: 404, method: "GET", target: "/nowhere", rest: `${host}\r\n` },
    { status: 422, method: "GET", target: "/healthz?x=1", rest: `${host}\r\n` },
    { status: 422, method: "GET", target: "/healthz", rest: `${host}Content-Length: 5\r\n\r\nhello` },
    {
      status: 422,
      method: "GET",
      target: "/healthz",
      rest: `${host}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`
    },
    { status: 401, method: "GET", target, rest: `${host}\r\n` },
    { status: 405, method: "POST", target, rest: `${authorization}Content-Length: 2\r\n\r\n{}` },
    { status: 200, method: "GET", target, rest: `${authorization}\r\n` },
    { status: 304, method: "GET", target, rest: `${authorization}If-None-Match: *\r\n\r\n` },
    { status: 200, method: "HEAD", target, rest: `${authorization}\r\n` },
    { status: 204, method: "OPTIONS", target, rest: `${authorization}Content-Length: 2\r\n\r\n{}` },
    { status: 400, method: "GET", target, rest: "\r\n" },
    { status: 406, method: "GET", target, rest: `${authorization}Accept: text/html\r\n\r\n` },
    { status: 414, method: "GET", target: `/${"a".repeat(8192)}`, rest: `${host}\r\n` },
    { status: 200, method: "GET", target: "/v1/operations", rest: `${authorization}\r\n` }
  ]
}

layer(memoryGateway(), { excludeTestServices: true })("A connection", (it) => {
  it.effect("accepts pipelined requests, answers them in order, and stays usable (RFC 9112 §9.3.2)", () =>
    Effect.gen(function*() {
      const { check, wire } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const requests = requestsOf(holder.token, id)
      const connection = yield* wire
      connection.send(requests.map(({ method, rest, target }) => `${method} ${target} HTTP/1.1\r\n${rest}`).join(""))
      for (const { method, status, target } of requests) {
        const answer = yield* Effect.promise(() => connection.next({ bodiless: method === "HEAD" }))
        check({ method, target }, answer!)
        assert.strictEqual(answer!.status, status, target.slice(0, 80))
      }
      assert.isTrue(connection.isOpen())
    }))

  it.effect("is closed after the response when the client requests it, or uses HTTP/1.0", () =>
    Effect.gen(function*() {
      for (const rest of [`1.1\r\n${host}Connection: close\r\n\r\n`, "1.0\r\n\r\n"]) {
        assert.strictEqual((yield* sendLast(`GET /healthz HTTP/${rest}`, "/healthz")).status, 200)
      }
    }))

  it.effect("that its client half closes counts as left: it ends after the responses that are there, and no read waits", () =>
    Effect.gen(function*() {
      const { wire } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const waiting = yield* wire
      waiting.send(
        `GET /v1/operations/${id} HTTP/1.1\r\n${host}Authorization: Bearer ${holder.token}\r\nPrefer: wait=60\r\n\r\n`
      )
      waiting.finish()
      assert.strictEqual(yield* Effect.promise(() => waiting.closed), "")
      const connection = yield* wire
      connection.send(`GET /healthz HTTP/1.1\r\n${host}\r\n`)
      connection.finish()
      const answer = yield* Effect.promise(() => connection.next())
      assert.strictEqual(answer!.status, 200)
    }))
})
