/**
 * Every response and every log line carries a safe request id. The tests send header values with every kind of request
 * over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { fixedId, fixedToken, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblem } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const uuidV4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const safe = [
  "abcdefgh",
  "A".repeat(128),
  "Az09._~-",
  "--------",
  "........",
  "7f9c24e8-3b12-4c3a-9a57-2f0f6f1f7a10",
  "constructor",
  "__proto__"
]

const unsafe = [
  "",
  "abcdefg",
  "A".repeat(129),
  "A".repeat(4000),
  "abcdefg h",
  "abcdefgh\tx",
  "abcdefgh,ijklmnop",
  "<script>alert(1)</script>",
  "../../etc/passwd",
  "abcdefgh\u00e9",
  "%41%41%41%41%41%41%41%41",
  "${jndi:ldap://x}",
  "\"abcdefgh\"",
  "abcdefgh;ijklmnop"
]

layer(memoryGateway({ way: "both" }), { excludeTestServices: true })("X-Request-Id", (it) => {
  /** Requests for each kind of response of the gateway. */
  const requests = Effect.gen(function*() {
    const holder = yield* issue()
    const { id } = yield* accept(holder)
    const { token } = holder
    const target = `/v1/operations/${id}`
    return [
      { status: 200, target: "/healthz" },
      { status: 200, target: "/readyz" },
      { status: 200, target: "/docs" },
      { status: 200, target: "/openapi.json" },
      { status: 200, target: "/problems" },
      { status: 200, target, token },
      { status: 200, target: "/v1/operations", token },
      { status: 204, target, method: "OPTIONS" },
      { status: 304, target, token, headers: { "if-none-match": "*" } },
      { status: 400, target: `${target}?access_token=x` },
      { status: 401, target },
      { status: 404, target: "/v1/operations/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f", token },
      { status: 404, target: "/nowhere" },
      { status: 405, target, method: "DELETE" },
      { status: 406, target, token, headers: { accept: "text/html" } },
      { status: 413, target: "/healthz", headers: { "content-length": "65537" }, body: "a".repeat(65_537) },
      { status: 414, target: `/${"a".repeat(8192)}` },
      { status: 422, target: "/healthz?x=1" }
    ]
  })

  it.effect("that is safe is echoed by every response, HEAD included", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const { headers, status, target, ...request } of yield* requests) {
        for (const id of safe) {
          const answer = yield* send(target, { ...request, headers: { ...headers, "x-request-id": id } })
          assert.strictEqual(answer.status, status, target.slice(0, 100))
          assert.strictEqual(answer.headers["x-request-id"], id)
          if (status >= 400) assert.strictEqual(assertProblem(answer).request_id, id)
        }
        const head = { ...request, method: "HEAD", headers: { ...headers, "X-REQUEST-ID": "in-capitals" } }
        if (!("method" in request)) {
          assert.strictEqual((yield* send(target, head)).headers["x-request-id"], "in-capitals")
        }
      }
    }))

  it.effect("that is missing or unsafe is replaced by a new generated UUID", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const seen = new Set<string>()
      let count = 0
      for (const { headers, status, target, ...request } of yield* requests) {
        for (const id of [undefined, ...unsafe]) {
          const answer = yield* send(target, {
            ...request,
            headers: { ...headers, ...id === undefined ? {} : { "x-request-id": id } }
          })
          assert.strictEqual(answer.status, status, target.slice(0, 100))
          assert.match(answer.headers["x-request-id"]!, uuidV4)
          seen.add(answer.headers["x-request-id"]!)
          count++
        }
      }
      assert.strictEqual(seen.size, count)
    }))

  it.effect("that is sent twice is unsafe, even when both are equal", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { headers } = yield* send("/healthz", { headers: { "x-request-id": ["abcdefgh", "abcdefgh"] } })
      assert.match(headers["x-request-id"]!, uuidV4)
    }))

  it.effect("that is safe is echoed where the parser answers, and no other is", () =>
    Effect.gen(function*() {
      const { wire } = yield* Gateway
      const sendBytes = (bytes: string) =>
        Effect.flatMap(
          Effect.scoped(Effect.flatMap(wire, (connection) => {
            connection.send(bytes)
            return Effect.promise(() => connection.next())
          })),
          Effect.fromNullishOr
        )
      const unreadable = (field: string) => ({
        "a method that does not exist": `BREW / HTTP/1.1\r\nHost: a\r\n${field}\r\n\r\n`,
        "a header without a colon": `GET / HTTP/1.1\r\nHost: a\r\n${field}\r\nnonsense\r\n\r\n`,
        "a tunnel": `CONNECT a:1 HTTP/1.1\r\nHost: a\r\n${field}\r\n\r\n`,
        "too many headers": `GET / HTTP/1.1\r\nHost: a\r\n${field}\r\na: ${"b".repeat(17_000)}\r\n\r\n`
      })
      for (const name of Object.keys(unreadable("")) as Array<keyof ReturnType<typeof unreadable>>) {
        for (const id of safe) {
          const answer = yield* sendBytes(unreadable(`X-Request-ID: ${id}`)[name])
          assert.strictEqual(answer.headers["x-request-id"], id, name)
          assert.strictEqual(assertProblem(answer).request_id, id, name)
        }
        for (
          const field of [
            "X-Request-Id: short",
            "Y-Request-Id: abcdefgh",
            "X-Request-Id: abcdefgh\r\nX-Request-Id: abcdefgh"
          ]
        ) {
          assert.match(
            (yield* sendBytes(unreadable(field)[name])).headers["x-request-id"]!,
            uuidV4,
            `${name}, ${field}`
          )
        }
      }
    }))

  it.effect("of another request on the connection is not taken for that of bytes that are no request", () =>
    Effect.gen(function*() {
      const { wire } = yield* Gateway
      const connection = yield* wire
      connection.send(
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-first-one\r\n\r\nBREW / HTTP/1.1\r\nHost: a\r\n\r\n"
      )
      assert.strictEqual((yield* Effect.promise(() => connection.next()))!.headers["x-request-id"], "the-first-one")
      assert.match((yield* Effect.promise(() => connection.next()))!.headers["x-request-id"]!, uuidV4)
    }))
})

describe("X-Request-Id", () => {
  const find = () =>
    Effect.andThen(
      Effect.logInfo("inside the store"),
      Effect.fail(new StoreUnavailable({ cause: new Error("away") }))
    )

  it.live("is in every log line of the request", () =>
    withServices({ find }, ({ send }, { lines }) =>
      Effect.gen(function*() {
        const sent = yield* send(`/v1/operations/${fixedId}`, {
          token: fixedToken,
          headers: { "x-request-id": "from-the-client" }
        })
        const made = yield* send(`/v1/operations/${fixedId}`, { token: fixedToken })
        assert.deepStrictEqual(lines.map(({ annotations, message }) => [message, annotations["request_id"]]), [
          ["inside the store", "from-the-client"],
          ["Request failed", "from-the-client"],
          ["inside the store", made.headers["x-request-id"]],
          ["Request failed", made.headers["x-request-id"]]
        ])
        assert.strictEqual(assertProblem(sent).request_id, "from-the-client")
      })))

  it.live("is in the span of the request, when there is one", () =>
    withServices(
      { find: () => Effect.withSpan(Effect.never, "read") },
      ({ send }, { spans }) =>
        Effect.gen(function*() {
          const requestOf = (id: string) => spans.find(({ attributes }) => attributes.get("request_id") === id)
          yield* send("/healthz", { headers: { "x-request-id": "traced-health" } })
          yield* send("/nowhere", { headers: { "x-request-id": "traced-nowhere" } })
          yield* send(`/v1/operations/${fixedId}`, { token: fixedToken, headers: { "x-request-id": "traced-read" } })
          const made = yield* send("/healthz")
          for (const id of ["traced-health", "traced-nowhere", "traced-read", made.headers["x-request-id"]!]) {
            const span = requestOf(id)
            assert.isDefined(span, id)
            assert.strictEqual(span!.kind, "server")
          }
        }),
      { spans: true, lifecycle: { deadline: 20 } }
    ))
})
