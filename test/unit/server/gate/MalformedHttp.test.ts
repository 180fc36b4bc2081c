/**
 * Bytes that are not HTTP get one complete 400 problem and end the connection. The tests send raw bytes over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { once } from "node:events"
import * as net from "node:net"
import { setImmediate } from "node:timers/promises"
import { heldStore, makeHeld } from "../../../fixtures/http/HeldRequests.ts"
import { fixedId, fixedToken, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, memoryGateway, sendLast } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const host = "Host: gateway.test\r\n"

/** Bytes that no HTTP server accepts as a request. */
const garbage: Readonly<Record<string, string | Uint8Array>> = {
  "a line of text": "hello, is it me\r\n\r\n",
  "no line at all": "\u0000\u0001\u0002\u0003\r\n\r\n",
  "a TLS handshake": Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03),
  "a method that does not exist": `BREW /healthz HTTP/1.1\r\n${host}\r\n`,
  "a method in lower case": `get /healthz HTTP/1.1\r\n${host}\r\n`,
  "a target without a slash": `GET healthz HTTP/1.1\r\n${host}\r\n`,
  "a target with a space": `GET /heal thz HTTP/1.1\r\n${host}\r\n`,
  "a target that is not ASCII": `GET /caf\u00e9 HTTP/1.1\r\n${host}\r\n`,
  "another protocol": `GET /healthz SMTP/1.1\r\n${host}\r\n`,
  "a version that does not exist": `GET /healthz HTTP/1.2\r\n${host}\r\n`,
  "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "a header without a colon": `GET /healthz HTTP/1.1\r\n${host}nonsense\r\n\r\n`,
  "a header with a space in its name": `GET /healthz HTTP/1.1\r\n${host}a b: c\r\n\r\n`,
  "a header that is folded": `GET /healthz HTTP/1.1\r\n${host}a: b\r\n c\r\n\r\n`,
  "a header with a NUL": `GET /healthz HTTP/1.1\r\n${host}a: \u0000\r\n\r\n`,
  "a header with a space, for a whole URL": `GET http://gateway.test/healthz HTTP/1.1\r\n${host}a b: c\r\n\r\n`,
  "two lengths": `GET /healthz HTTP/1.1\r\n${host}Content-Length: 0\r\nContent-Length: 1\r\n\r\n`,
  "a length and chunks":
    `GET /healthz HTTP/1.1\r\n${host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  "a length that is no number": `GET /healthz HTTP/1.1\r\n${host}Content-Length: five\r\n\r\n`,
  "a length below zero": `GET /healthz HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n`,
  "a tunnel": `CONNECT example.com:443 HTTP/1.1\r\n${host}\r\n`
}

/** The path of bytes that have one. */
const instanceOf = (bytes: string | Uint8Array) =>
  /^\w+ (?:http:\/\/gateway\.test)?\/healthz HTTP\//.test(String(bytes)) ? "/healthz" : "/"

layer(memoryGateway(), { excludeTestServices: true })("What is not HTTP", (it) => {
  it.effect.each(Object.keys(garbage))(
    "is 400 malformed_request, complete, and ends the connection: %s",
    (name) =>
      Effect.gen(function*() {
        const target = instanceOf(garbage[name]!)
        const answer = yield* sendLast(garbage[name]!, target)
        assert.strictEqual(assertProblemOf(answer, "malformed_request").instance, target)
      })
  )

  it.effect("is 400 also after a good request on the same connection, whose response comes first", () =>
    Effect.gen(function*() {
      const { check, wire } = yield* Gateway
      const connection = yield* wire
      connection.send(`GET /healthz HTTP/1.1\r\n${host}\r\n`)
      const good = yield* Effect.promise(() => connection.next())
      assert.strictEqual(good!.status, 200)
      connection.send("garbage\r\n\r\n")
      const bad = yield* Effect.promise(() => connection.next())
      check({ method: "GET", target: "/" }, bad!)
      assertProblemOf(bad!, "malformed_request")
      assert.notStrictEqual(bad!.headers["x-request-id"], good!.headers["x-request-id"])
    }))

  it.effect("is answered with the id and the path of the request, in however many packets it arrives", () =>
    Effect.gen(function*() {
      const { listener, port } = yield* Gateway
      const read = `GET /healthz HTTP/1.1\r\n${host}\r\n`
      const body = `POST /healthz HTTP/1.1\r\n${host}Content-Length: 3\r\n\r\n`
      const head = `GET /problems/${"x".repeat(40)} HTTP/1.1\r\nX-Request-Id: my-request-1\r\n${host}`
      const faults = ["nonsense\r\n\r\n", `X-Filler: ${"a".repeat(17_000)}\r\n\r\n`, "a b: c\r\n\r\n"]
      const askWith = async (before: ReadonlyArray<string>, packets: ReadonlyArray<string>) => {
        const accepted = once(listener, "connection")
        const socket = net.connect({ host: "127.0.0.1", port, noDelay: true })
        const [served] = (await accepted) as [net.Socket]
        if (before.length > 0) {
          for (const packet of before) socket.write(packet)
          await once(socket, "data")
        }
        const text = socket.setEncoding("latin1").toArray()
        let length = before.join("").length
        for (const packet of packets) {
          socket.write(packet)
          length += packet.length
          // Once the listener has read this packet, the next one is another.
          while (served.bytesRead < length && !served.destroyed && served.writable) await setImmediate()
        }
        const answers = (await text).join("").split(/(?=HTTP\/1\.1 )/)
        return JSON.parse(answers.at(-1)!.split("\r\n\r\n")[1]!) as {
          readonly instance: string
          readonly request_id: string
        }
      }
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.constantFrom([], [read], [body, "{ }"]),
            fc.array(fc.nat(head.length), { maxLength: 4 }),
            fc.constantFrom(...faults),
            async (before, cuts, fault) => {
              const ends = [...new Set([0, ...cuts, head.length])].sort((a, b) => a - b)
              const parts = ends.slice(1).map((end, index) => head.slice(ends[index], end))
              const problem = await askWith(before, [...parts, fault])
              assert.strictEqual(problem.request_id, "my-request-1")
              assert.strictEqual(problem.instance, `/problems/${"x".repeat(40)}`)
            }
          ),
          { numRuns: 60 }
        )
      )
    }))

  it.effect.each(["ZZ\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\na b\r\n\r\n", "2\r\n{}\r\n"])(
    "is 400 in a body, too, before the time of the body is over, with the id and the path of its request: %j",
    (chunks) =>
      Effect.gen(function*() {
        const { check, wire } = yield* Gateway
        const holder = yield* issue()
        const { id } = yield* accept(holder)
        const authorization = `${host}Authorization: Bearer ${holder.token}\r\n`
        const head = `POST /mcp HTTP/1.1\r\n${authorization}X-Request-Id: my-request-1\r\n`
        const read = `GET /v1/operations/${id} HTTP/1.1\r\n${authorization}Prefer: wait=1\r\n\r\n`
        for (const before of ["", read]) {
          const connection = yield* wire
          connection.send(
            `${before}${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`
          )
          if (chunks.endsWith("}\r\n") && before === "") connection.finish()
          else connection.send("ZZ\r\n")
          if (before !== "") assert.strictEqual((yield* Effect.promise(() => connection.next()))!.status, 200)
          const answer = (yield* Effect.promise(() => connection.next()))!
          check({ method: "POST", target: "/mcp", requestId: "my-request-1" }, answer)
          assert.strictEqual(assertProblemOf(answer, "malformed_request").request_id, "my-request-1")
          assert.strictEqual(yield* Effect.promise(() => connection.closed), "")
        }
      })
  )

  it.effect("gets no second answer in the body of a request that was answered before", () =>
    Effect.gen(function*() {
      const { wire } = yield* Gateway
      const connection = yield* wire
      connection.send(`GET /healthz HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`)
      assertProblemOf((yield* Effect.promise(() => connection.next()))!, "invalid_request")
      connection.send("ZZ\r\n")
      assert.strictEqual(yield* Effect.promise(() => connection.closed), "")
    }))

  it.effect("is answered once, however much of it comes, and the client can read the answer", () =>
    Effect.gen(function*() {
      const { listener, port } = yield* Gateway
      const accepted = once(listener, "connection")
      const socket = net.connect({ host: "127.0.0.1", port, noDelay: true, allowHalfOpen: true })
      const text = socket.setEncoding("latin1").toArray()
      yield* Effect.promise(async () => {
        const [served] = (await accepted) as [net.Socket]
        for (const packets of [1, 2, 3]) {
          socket.write("garbage\r\n\r\n")
          while (served.bytesRead < packets * "garbage\r\n\r\n".length && !served.destroyed) await setImmediate()
          assert.isFalse(served.destroyed, `after ${packets} packets`)
        }
        assert.lengthOf((await text).join("").match(/^HTTP\/1\.1 400 /gm) ?? [], 1)
        socket.destroy()
      })
    }))

  it.effect("ends the connection even if the client keeps it open", () =>
    Effect.gen(function*() {
      const { listener, port } = yield* Gateway
      const accepted = once(listener, "connection")
      const socket = net.connect({ host: "127.0.0.1", port, allowHalfOpen: true })
      socket.resume()
      socket.write("garbage\r\n\r\n")
      yield* Effect.promise(async () => {
        const [served] = (await accepted) as [net.Socket]
        if (!served.destroyed) await once(served, "close")
        socket.destroy()
      })
    }))

  it.effect("that requests a tunnel and then resets the connection does not end the process", () =>
    Effect.gen(function*() {
      const { port, send } = yield* Gateway
      yield* Effect.promise(() =>
        Promise.all(Array.from({ length: 20 }, async () => {
          const socket = net.connect({ host: "127.0.0.1", port })
          await once(socket, "connect")
          socket.write(`CONNECT example.com:443 HTTP/1.1\r\n${host}\r\n`)
          socket.resetAndDestroy()
          await once(socket, "close")
        }))
      )
      assert.strictEqual((yield* send("/healthz")).status, 200)
    }))

  it.effect("includes HTTP/1.1 without exactly one valid Host (RFC 9112 §3.2), also with a whole URL, though not HTTP/1.0 without one", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      const two = `GET /healthz HTTP/1.1\r\n${host}Host: other.test\r\n\r\n`
      const whole = "GET http://gateway.test/healthz HTTP/1.1\r\n"
      const wrong = ["a b", "a/b", "a@b", "a:b", "[a", "\u00e9"].map((value) =>
        `GET /healthz HTTP/1.1\r\nHost: ${value}\r\n\r\n`
      )
      const none = ["GET /healthz HTTP/1.1\r\n\r\n", `${whole}\r\n`, `${whole}Host: a b\r\n\r\n`]
      for (const bytes of [...none, two, two.replace("/", "http://gateway.test/"), ...wrong]) {
        const problem = assertProblemOf(yield* sendBytes(bytes, "GET", "/healthz"), "malformed_request")
        assert.include(problem.detail, "Host")
      }
      assertProblemOf(yield* sendBytes("GET /nowhere HTTP/1.1\r\n\r\n", "GET", "/nowhere"), "malformed_request")
      assert.strictEqual((yield* sendBytes("GET /healthz HTTP/1.0\r\n\r\n", "GET", "/healthz")).status, 200)
      for (const value of ["", "g-1.test:8080", "127.0.0.1", "[::1]:80", "a_b%20~"]) {
        const bytes = `GET /healthz HTTP/1.1\r\nHost: ${value}\r\n\r\n`
        assert.strictEqual((yield* sendBytes(bytes, "GET", "/healthz")).status, 200, value)
      }
    }))

  it.effect("includes targets without a path (RFC 9112 §3.2)", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      const targets = ["*", "ftp://gateway.test/healthz", "http://[/healthz", "http://a:b/healthz"]
      for (const target of targets) {
        for (const method of ["GET", "POST"]) {
          const answer = yield* sendBytes(`${method} ${target} HTTP/1.1\r\n${host}\r\n`, method, target)
          assertProblemOf(answer, "malformed_request", target)
        }
      }
    }))

  it.effect("includes paths that cannot be decoded, but not queries that cannot, which are plain text", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      for (const target of ["/%", "/%zz", "/%ff", "/healthz%", "/v1/operations/%c3%28", "/problems/%E0%A4%A"]) {
        for (const method of ["GET", "POST"]) {
          assertProblemOf(yield* send(target, { token, method }), "malformed_request", target)
        }
      }
      for (const query of ["%", "%zz", "state=%ff", "%c3%28=1"]) {
        assertProblemOf(yield* send(`/v1/operations?${query}`, { token }), "invalid_request", query)
      }
    }))

  it.effect("does not include upgrade offers, which are declined with a normal response (RFC 9110 §7.8)", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      const offer = (upgrade: string, more = "") =>
        sendBytes(
          `GET /healthz HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n${more}\r\n`,
          "GET",
          "/healthz"
        )
      const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
      for (const answer of [yield* offer("websocket", key), yield* offer("h2c"), yield* offer("TLS/1.0")]) {
        assert.strictEqual(answer.status, 200)
        assert.notProperty(answer.headers, "upgrade")
        // Node cannot refuse a second request on the connection.
        assert.strictEqual(answer.headers["connection"], "close")
      }
      const withBody = yield* offer("h2c", "Transfer-Encoding: chunked\r\n")
      assertProblemOf(withBody, "invalid_request")
    }))

  it.effect("does not include expectations: 100-continue is not needed, and others may be ignored", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      const expecting = (expectation: string, more = "") =>
        sendBytes(`GET /healthz HTTP/1.1\r\n${host}Expect: ${expectation}\r\n${more}\r\n`, "GET", "/healthz")
      assert.strictEqual((yield* expecting("100-continue")).status, 200)
      assert.strictEqual((yield* expecting("something-else")).status, 200)
      assertProblemOf(yield* expecting("100-continue", "Content-Length: 5\r\n"), "invalid_request")
    }))

  it.effect("does not include a client that disconnects, which gets no response", () =>
    Effect.gen(function*() {
      const { port, send, wire } = yield* Gateway
      assert.isAbove(port, 0)
      const { token } = yield* issue()
      for (const bytes of ["", "GET", "GET /healthz HTTP/1.1\r\n", `GET /v1/operations HTTP/1.1\r\n${host}\r\n`]) {
        const connection = yield* wire
        connection.send(bytes)
        connection.destroy()
      }
      assert.strictEqual((yield* send("/v1/operations", { token })).status, 200)
    }))
})

describe("Malformed HTTP", () => {
  it.live("is answered after the response to an earlier, slow request", () => {
    const held = makeHeld()
    return withServices(heldStore(held), ({ check, wire }) =>
      Effect.gen(function*() {
        const target = `/v1/operations/${fixedId}`
        for (const rest of ["garbage\r\n\r\n", garbage["a tunnel"]!]) {
          const connection = yield* wire
          connection.send(`GET ${target} HTTP/1.1\r\n${host}Authorization: Bearer ${fixedToken}\r\n\r\n`)
          yield* held.entered(1)
          connection.send(rest)
          held.release()
          const good = yield* Effect.promise(() => connection.next())
          check({ method: "GET", target }, good!)
          assert.strictEqual(good!.status, 200)
          const bad = yield* Effect.promise(() => connection.next())
          check({ method: "GET", target: "/" }, bad!)
          assertProblemOf(bad!, "malformed_request")
        }
      }))
  })
})
