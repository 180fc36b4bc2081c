/**
 * Only a valid access token in the header reads, and every refusal carries the right challenge. The tests send good and
 * broken credentials on both ways.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway, memoryGateway, refuses } from "../../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import { assertProblemOf, baseUrl } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const list = "/v1/operations"
const endpoints = [list, `${list}/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f`]
const system = ["/healthz", "/readyz", "/problems", "/problems/not_ready"]

const realm = "Bearer realm=\"financial-agents-gateway\""
const metadata = `, resource_metadata="${baseUrl}/.well-known/oauth-protected-resource"`
const challenges = {
  missing_credentials: realm + metadata,
  invalid_token:
    `${realm}, error="invalid_token", error_description="The access token is unknown, malformed or expired, was issued for `
    + `another service, or is bound to another sender."${metadata}`
}

/** Credentials that are refused, made from a valid token. */
const refused: Readonly<
  Record<keyof typeof challenges, (token: string) => ReadonlyArray<string | Array<string> | null>>
> = {
  missing_credentials: () => [
    null,
    "Basic dXNlcjpwYXNzd29yZA==",
    "Digest username=\"user\"",
    "DPoP abc",
    "Bearer",
    "Bearer   ",
    "Bearerabc",
    "Bearer\tabc",
    "Token abc",
    ""
  ],
  invalid_token: (token) => [
    ...[
      token.toUpperCase(),
      token.toLowerCase(),
      token.slice(0, -1),
      `${token}a`,
      `${token} ${token}`,
      `"${token}"`,
      `fingw_${"0".repeat(49)}`,
      token.replace("fingw_", "fingx_"),
      "a",
      "..",
      "'; DROP TABLE grants; --",
      `${token}\u00e9`,
      "x".repeat(8000)
    ].map((wrong) => `Bearer ${wrong}`),
    // Credentials that come twice are refused, even if one of them is valid.
    ...[[token, "another"], ["another", token], [token, token]].map((both) => both.map((one) => `Bearer ${one}`))
  ]
}

const codes = Object.keys(refused) as ReadonlyArray<keyof typeof challenges>

layer(memoryGateway({ way: "both" }), { excludeTestServices: true })("Credentials", (it) => {
  it.effect.each(codes)(
    "that are missing or wrong are 401, and the challenge names an error only if there was a token: %s",
    (code) =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const requests = refused[code](token).flatMap((authorization) =>
          endpoints.map((target) => [target, { headers: authorization === null ? {} : { authorization } }] as const)
        )
        for (const { answer } of yield* refuses(code, requests)) {
          assert.strictEqual(answer.headers["www-authenticate"], challenges[code])
        }
      })
  )

  it.effect("are accepted however the scheme is spelled and spaced (RFC 9110 §11.1)", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      for (const scheme of ["Bearer ", "bearer ", "BEARER ", "bEaReR ", "Bearer    "]) {
        for (const target of [list, `${list}/${id}`]) {
          assert.strictEqual((yield* send(target, { headers: { authorization: scheme + holder.token } })).status, 200)
        }
      }
    }))

  it.effect("in the query are 400 on each path, with each method, beside other errors and good credentials, and not repeated", () =>
    Effect.gen(function*() {
      const { send, sendBytes } = yield* Gateway
      const { lines } = yield* Observer
      const { token } = yield* issue()
      const query = `access_token=${token}`
      const queries = [
        query,
        `state=accepted&${query}`,
        `${query}&access_token=x`,
        "access_token=",
        "access_token",
        `%61ccess_token=${token}`
      ]
      const paths = [...endpoints, ...system, "/docs", "/openapi.json", "/nowhere", "/", `${list}/`, "/%"]
      const answers = yield* refuses("malformed_request", [
        ...queries.flatMap((query) =>
          [...endpoints, ...system].flatMap((path) => [[`${path}?${query}`], [`${path}?${query}`, { token }]] as const)
        ),
        ...paths.map((path) => [`${path}?${query}`] as const),
        ...["POST", "PUT", "PATCH", "DELETE", "OPTIONS"].map((method) => [`${list}?${query}`, { method }] as const),
        [`${list}?${query}`, { headers: { accept: "text/html" } }],
        [`${list};x=1?${query}`],
        [`${list}?x=${"x".repeat(9000)}&${query}`]
      ])
      const twoHosts = yield* sendBytes(`GET ${list}?${query} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`, "GET", list)
      for (
        const { answer, problem } of [...answers, {
          answer: twoHosts,
          problem: assertProblemOf(twoHosts, "malformed_request")
        }]
      ) {
        assert.include(problem.detail, "leaked")
        assert.notInclude(answer.text, token)
      }
      assert.strictEqual((yield* send(`/docs?${query}`, { method: "HEAD" })).status, 400)
      for (const { text } of lines) assert.notInclude(text, token)
      // The name of the parameter decides, not its value.
      assert.strictEqual((yield* send(`/docs?x=access_token&my_access_token=${token}`)).status, 200)
    }))

  it.effect("are checked before the shape of the request", () =>
    Effect.gen(function*() {
      const targets = [`${list}/not-an-id`, `${list}?page_size=0`, `${list}?unknown=1`]
      const body = { headers: { "content-length": "2" }, body: "{}" }
      yield* refuses("missing_credentials", targets.flatMap((target) => [[target], [target, body]] as const))
      yield* refuses("invalid_token", targets.map((target) => [target, { token: "x" }]))
    }))

  it.effect("are neither required nor checked by the system endpoints", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of [...system, "/openapi.json", "/docs"]) {
        for (const request of [{}, { token: "not-a-token" }]) {
          assert.strictEqual((yield* send(target, request)).status, 200)
        }
      }
    }))
})
