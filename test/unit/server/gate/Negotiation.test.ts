/**
 * The header Accept decides only between JSON and 406, except where the gateway has pages for people: `Pages.test.ts`. The tests
 * send header values on both ways.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway, memoryGateway, refuses } from "../../../fixtures/http/HttpGateway.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const acceptable = [
  "",
  ", ,",
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

layer(memoryGateway({ way: "both" }), { excludeTestServices: true })("Accept", (it) => {
  const targets = Effect.gen(function*() {
    const holder = yield* issue()
    const { id } = yield* accept(holder)
    const paths = ["/v1/operations", `/v1/operations/${id}`]
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
      for (const accept of unacceptable) {
        const request = { token, headers: { accept } }
        yield* refuses("not_acceptable", paths.map((target) => [target, request]))
        for (const target of paths) {
          assert.strictEqual((yield* send(target, { ...request, method: "HEAD" })).status, 406)
        }
      }
    }))

  it.effect("that is longer than 1024 characters counts as absent (RFC 9110 §12.5.1)", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const padded = (length: number) => "text/html, ".repeat(100).slice(0, length - 3) + "x/y"
      const { token } = yield* issue()
      const list = "/v1/operations"
      yield* refuses("not_acceptable", [[list, { token, headers: { accept: padded(1024) } }]])
      assert.strictEqual((yield* send(list, { token, headers: { accept: padded(1025) } })).status, 200)
    }))

  it.effect("may come in several lines (RFC 9110 §5.3)", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      const list = "/v1/operations"
      const met = yield* send(list, { token, headers: { accept: ["text/html", "application/json"] } })
      assert.strictEqual(met.status, 200)
      yield* refuses("not_acceptable", [[list, { token, headers: { accept: ["text/html", "text/plain"] } }]])
    }))

  it.effect("is ignored by /healthz and /readyz: nothing that a probe sends by mistake is 406", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of ["/healthz", "/readyz"]) {
        for (const accept of [...acceptable, ...unacceptable]) {
          for (const method of ["GET", "HEAD"]) {
            const answer = yield* send(target, { method, headers: { accept } })
            assert.strictEqual(answer.status, 200, `${target} ${accept}`)
            assert.strictEqual(answer.headers["content-type"], "application/json")
          }
        }
      }
    }))

  it.effect("is checked after the credential, and does not change the media type of a problem", () =>
    Effect.gen(function*() {
      const wrongPath = "/v1/operations/x?page_size=0"
      for (const accept of [...acceptable, "text/html"]) {
        yield* refuses("missing_credentials", [[wrongPath, { headers: { accept } }]])
        yield* refuses("invalid_token", [[wrongPath, { token: "x", headers: { accept } }]])
      }
      yield* refuses(
        "route_not_found",
        [...acceptable, "text/html"].map((accept) => ["/nowhere", { headers: { accept } }])
      )
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
