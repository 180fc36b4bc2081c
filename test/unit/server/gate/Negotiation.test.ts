/**
 * The header Accept decides only between JSON and 406, except where the gateway has pages for people: `Pages.test.ts`. The tests
 * send header values over a socket.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const acceptable = [
  "application/json",
  "APPLICATION/JSON",
  "*/*",
  "application/*",
  "application/json; charset=utf-8",
  "application/json;q=0.001",
  "text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8",
  "text/html,application/json;q=0.1",
  "application/problem+json, application/json",
  "*/*;q=0.1, text/html;q=0"
]

const unacceptable = [
  "text/html",
  "text/*",
  "application/xml",
  "application/jsonp",
  "application/problem+json",
  "application/json;q=0",
  "application/json;q=0.0",
  "application/*;q=0",
  "*/*;q=0",
  "application/json;q=0, */*",
  "text/html, application/xml;q=0.9"
]

layer(memoryGateway(), { excludeTestServices: true })("Accept", (it) => {
  const targets = Effect.gen(function*() {
    const holder = yield* issue()
    const { id } = yield* accept(holder)
    const paths = ["/healthz", "/readyz", "/v1/operations", `/v1/operations/${id}`]
    return { paths, token: holder.token }
  })

  it.effect("that allows JSON in any form gets JSON", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { paths, token } = yield* targets
      for (const target of paths) {
        for (const accept of acceptable) {
          const answer = yield* send(target, { token, headers: { accept } })
          assert.strictEqual(answer.status, 200, `${target} ${accept}`)
          assert.strictEqual(answer.headers["content-type"], "application/json")
        }
        assert.strictEqual((yield* send(target, { token })).status, 200)
      }
    }))

  it.effect("that excludes JSON is 406 not_acceptable", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { paths, token } = yield* targets
      for (const target of paths) {
        for (const accept of unacceptable) {
          assertProblemOf(yield* send(target, { token, headers: { accept } }), "not_acceptable", `${target} ${accept}`)
          assert.strictEqual((yield* send(target, { token, method: "HEAD", headers: { accept } })).status, 406)
        }
      }
    }))

  it.effect("that is longer than 1024 characters is 406 without parsing", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const padded = (length: number) => `application/json, ${"x/y, ".repeat(300)}`.slice(0, length - 3) + "x/y"
      assert.strictEqual((yield* send("/healthz", { headers: { accept: padded(1024) } })).status, 200)
      assertProblemOf(yield* send("/healthz", { headers: { accept: padded(1025) } }), "not_acceptable")
    }))

  it.effect("may come in several lines (RFC 9110 §5.3)", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      const head = "GET /healthz HTTP/1.1\r\nHost: gateway.test\r\n"
      const met = yield* sendBytes(`${head}Accept: text/html\r\nAccept: application/json\r\n\r\n`, "GET", "/healthz")
      assert.strictEqual(met.status, 200)
      const unmet = yield* sendBytes(`${head}Accept: text/html\r\nAccept: text/plain\r\n\r\n`, "GET", "/healthz")
      assertProblemOf(unmet, "not_acceptable")
    }))

  it.effect("does not change the media type of a problem, because a client must always learn the reason", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const accept of acceptable) {
        assertProblemOf(yield* send("/v1/operations", { headers: { accept } }), "missing_credentials")
        assertProblemOf(yield* send("/nowhere", { headers: { accept } }), "route_not_found")
      }
      assertProblemOf(yield* send("/nowhere", { headers: { accept: "text/html" } }), "route_not_found")
    }))

  it.effect("for encodings, languages and charsets has no effect", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const answer = yield* send("/healthz", {
        headers: { "accept-encoding": "gzip, br, *;q=0", "accept-language": "tlh", "accept-charset": "utf-7" }
      })
      assert.strictEqual(answer.status, 200)
      assert.notProperty(answer.headers, "content-encoding")
    }))
})
