/**
 * Only a valid access token in the header reads, and every refusal carries the right challenge. The tests send good and
 * broken credentials to a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../fixtures/http/HttpObserver.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../fixtures/http/HttpScene.ts"

const id = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"
const endpoints = ["/v1/operations", `/v1/operations/${id}`]

const realm = "Bearer realm=\"financial-agents-gateway\""
const metadata = `, resource_metadata="${baseUrl}/.well-known/oauth-protected-resource"`
const invalidToken =
  `${realm}, error="invalid_token", error_description="The access token is unknown, malformed or expired, was issued for `
  + `another service, or is bound to another sender."${metadata}`

layer(postgresGateway(), { excludeTestServices: true })("Credentials", (it) => {
  it.effect.each(endpoints)(
    "that are missing are 401, with a challenge that names no error: %s",
    (target) =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const answer = yield* send(target)
        assertProblemOf(answer, "missing_credentials")
        assert.strictEqual(answer.headers["www-authenticate"], realm + metadata)
      })
  )

  it.effect.each([
    "Basic dXNlcjpwYXNzd29yZA==",
    "Digest username=\"user\"",
    "DPoP abc",
    "Bearer",
    "Bearer   ",
    "Bearerabc",
    "Bearer\tabc",
    "Token abc",
    ""
  ])("of another scheme, or without a token, are missing: %j", (authorization) =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of endpoints) {
        const answer = yield* send(target, { headers: { authorization } })
        assertProblemOf(answer, "missing_credentials")
        assert.strictEqual(answer.headers["www-authenticate"], realm + metadata)
      }
    }))

  it.effect("that name no token of ours are 401, with a challenge that says invalid_token", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      const wrong = [
        token.toUpperCase(),
        token.toLowerCase(),
        token.slice(0, -1),
        `${token}a`,
        `${token} `.repeat(2).trim(),
        `"${token}"`,
        `fingw_${"0".repeat(49)}`,
        token.replace("fingw_", "fingx_"),
        "a",
        "..",
        "'; DROP TABLE grants; --",
        `${token}\u00e9`,
        "x".repeat(8000)
      ]
      for (const candidate of wrong) {
        for (const target of endpoints) {
          const answer = yield* send(target, { token: candidate })
          assertProblemOf(answer, "invalid_token")
          assert.strictEqual(answer.headers["www-authenticate"], invalidToken)
        }
      }
    }))

  it.effect("are accepted however the scheme is spelled and spaced (RFC 9110 §11.1)", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      for (const scheme of ["Bearer ", "bearer ", "BEARER ", "bEaReR ", "Bearer    "]) {
        for (const target of ["/v1/operations", `/v1/operations/${id}`]) {
          const answer = yield* send(target, { headers: { authorization: scheme + holder.token } })
          assert.strictEqual(answer.status, 200)
        }
      }
    }))

  it.effect("that come twice are refused, even if one of them is valid", () =>
    Effect.gen(function*() {
      const { sendBytes } = yield* Gateway
      const { token } = yield* issue()
      for (const [first, second] of [[token, "another"], ["another", token], [token, token]]) {
        const answer = yield* sendBytes(
          `GET /v1/operations HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${first}\r\n`
            + `Authorization: Bearer ${second}\r\n\r\n`,
          "GET",
          "/v1/operations"
        )
        assertProblemOf(answer, "invalid_token")
      }
    }))

  it.effect("in the query string are 400, though good ones are in the header; the problem does not repeat them", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      const queries = [
        `access_token=${token}`,
        `state=accepted&access_token=${token}`,
        `access_token=${token}&access_token=x`,
        "access_token=",
        "access_token",
        `%61ccess_token=${token}`
      ]
      for (const query of queries) {
        for (const target of [...endpoints, "/healthz", "/readyz", "/problems", "/problems/not_ready"]) {
          for (const request of [{}, { token }]) {
            const answer = yield* send(`${target}?${query}`, request)
            const problem = assertProblemOf(answer, "malformed_request")
            assert.include(problem.detail, "leaked")
            assert.notInclude(answer.text, token)
            assert.notProperty(answer.headers, "www-authenticate")
          }
        }
      }
    }))

  it.effect("in the query string are 400 on every path, with every method, and beside any other error", () =>
    Effect.gen(function*() {
      const { send, sendBytes } = yield* Gateway
      const { lines } = yield* Observer
      const { token } = yield* issue()
      const query = `access_token=${token}`
      const paths = ["/docs", "/openapi.json", "/nowhere", "/", "/v1/operations/", "/%", ...endpoints]
      const refused = paths.map((path) => send(`${path}?${query}`))
      const html = { accept: "text/html" }
      const others = [
        ...["POST", "PUT", "PATCH", "DELETE", "OPTIONS"].map((method) => send(`/v1/operations?${query}`, { method })),
        send(`/v1/operations?${query}`, { headers: html }),
        send(`/v1/operations;x=1?${query}`),
        send(`/v1/operations?x=${"x".repeat(9000)}&${query}`),
        sendBytes(`GET /v1/operations?${query} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`, "GET", "/v1/operations")
      ]
      for (const answer of yield* Effect.all([...refused, ...others])) {
        assert.include(assertProblemOf(answer, "malformed_request").detail, "leaked")
        assert.notInclude(answer.text, token)
      }
      assert.strictEqual((yield* send(`/docs?${query}`, { method: "HEAD" })).status, 400)
      for (const { text } of lines) assert.notInclude(text, token)
      // The name of the parameter decides, not its value.
      assert.strictEqual((yield* send(`/docs?x=access_token&my_access_token=${token}`)).status, 200)
    }))

  it.effect("are checked before the shape of the request", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of ["/v1/operations/not-an-id", "/v1/operations?page_size=0", "/v1/operations?unknown=1"]) {
        assertProblemOf(yield* send(target), "missing_credentials")
        assertProblemOf(yield* send(target, { token: "x" }), "invalid_token")
        assertProblemOf(yield* send(target, { headers: { "content-length": "2" }, body: "{}" }), "missing_credentials")
      }
    }))

  it.effect("are neither required nor checked by the system endpoints", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of ["/healthz", "/readyz", "/problems", "/problems/invalid_token", "/openapi.json", "/docs"]) {
        assert.strictEqual((yield* send(target)).status, 200)
        assert.strictEqual((yield* send(target, { token: "not-a-token" })).status, 200)
      }
    }))
})
