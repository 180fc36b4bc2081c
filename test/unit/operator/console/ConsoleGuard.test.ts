/** No request reaches an endpoint of the console without a session, from another page, or without the anti-forgery token. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { ProblemDetails } from "../../../../src/api/Problems.ts"
import { ConsoleApi, refreshHeader } from "../../../../src/operator/console/ConsoleApi.ts"
import { pathsOf } from "../../../../src/server/gate/Edge.ts"
import { ConsoleScene } from "../../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../../fixtures/console/ConsoleServer.ts"
import { idOf } from "../../../fixtures/console/SceneOperations.ts"
import { signIn, type Visit, Visitor } from "../../../fixtures/console/Visitor.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"

const Served = Layer.provideMerge(consoleServer(ConsoleScene.services), ConsoleScene.layer)

const test = (rule: string, body: () => Effect.Effect<void, never, ConsoleServer | ConsoleScene | Observer>) =>
  it.effect(rule, () => Effect.provide(body(), Served))

const id = idOf(2)

const pathOf = (template: string) => template.replace(":id", id)

/** Every endpoint. */
const endpoints = [
  ...pathsOf([ConsoleApi]).flatMap(({ methods, path }) => methods.map((method) => [method, pathOf(path)] as const)),
  ["GET", "/console/api/events"] as const
]

const bodyOf = (method: string) =>
  method === "POST" ? { body: JSON.stringify({ action: "review", revision: 3, reason: null }) } : {}

const decodeProblem = Schema.decodeUnknownSync(ProblemDetails, { onExcessProperty: "error" })

/** The log tells of the problem once, under the id of the response. */
const assertLogged = ({ linesOf }: Observer["Service"], id: string, code: string) =>
  assert.deepStrictEqual(linesOf(id).map(({ annotations }) => annotations["code"]), [code])

const codeOf = ({ text }: { readonly text: string }) => (JSON.parse(text) as { readonly code: string }).code

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"]
const paths = [...new Set(endpoints.map(([, path]) => path)), "/console/api", "/console/api/other"]

/** Text that a header may hold. */
const token = fc.stringMatching(/^[A-Za-z0-9_-]{0,64}$/)

const changes = endpoints.filter(([method]) => method !== "GET")

/** What the guard refuses, with the headers of each try. `own` and `other` are anti-forgery tokens of two sessions. */
const refused: Readonly<
  Record<string, {
    readonly code: string
    readonly of: typeof endpoints
    readonly headers: (own: string, other: string, port: number) => ReadonlyArray<NonNullable<Visit["headers"]>>
  }>
> = {
  "changes without the anti-forgery token of their session": {
    code: "wrong_csrf_token",
    of: changes,
    headers: (own, other) =>
      [undefined, "", own.slice(1), `${own}A`, own.toLowerCase(), `${own}, ${own}`, other]
        .map((token) => ({ "x-csrf-token": token }))
  },
  "changes from other origins, and those whose origin is unknown": {
    code: "foreign_origin",
    of: changes,
    headers: (_own, _other, port) => [
      ...["null", "https://evil.example", "http://127.0.0.1", "http://127.0.0.1:1", ""].map((origin) => ({ origin })),
      ...[`http://localhost:${port}`, `https://127.0.0.1:${port}`, undefined].map((origin) => ({ origin })),
      { "sec-fetch-site": "none" }
    ]
  },
  "what the browser marks as a request of another site, or of another port of this host": {
    code: "foreign_origin",
    of: endpoints,
    headers: () => ["cross-site", "same-site"].map((site) => ({ "sec-fetch-site": site }))
  }
}

describe("the guard of the console", () => {
  it("knows every endpoint", () => {
    assert.isAbove(endpoints.length, 7)
    assert.deepInclude(endpoints, ["POST", `/console/api/operations/${id}/actions`])
  })

  test("answers every method on every path of the API with 401 if the cookie is missing or forged", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const { performed } = yield* ConsoleScene
      const signedIn = yield* signIn(port, link())
      const [[name, value] = ["", ""]] = [...signedIn.cookies]
      const cookies = fc.oneof(
        fc.constant(null),
        token.filter((text) => text !== value),
        fc.nat(value.length - 1).map((at) => value.slice(0, at)),
        fc.constantFrom(`${value}A`, value.toLowerCase(), `${value}; ${name}=${value}`, `other; ${name}=${value}`)
      )
      const forged = fc.tuple(fc.constantFrom(...methods), fc.constantFrom(...paths), cookies)
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(forged, async ([method, path, cookie]) => {
            const visitor = new Visitor(port)
            visitor.csrfToken = signedIn.csrfToken
            if (cookie !== null) visitor.cookies.set(name, cookie)
            const answer = await Effect.runPromise(visitor.send(path, { method, ...bodyOf(method) }))
            assert.deepStrictEqual([answer.status, codeOf(answer)], [401, "no_session"])
          }),
          { numRuns: 100 }
        )
      )
      assert.deepStrictEqual(performed, [])
    }))

  test("answers no endpoint after the sign-out, and removes the cookie", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      const before = new Map(visitor.cookies)
      const left = yield* visitor.send("/console/api/session", { method: "DELETE" })
      assert.strictEqual(left.status, 204)
      assert.strictEqual(visitor.cookies.size, 0)
      for (const [name, value] of before) visitor.cookies.set(name, value)
      for (const [method, path] of endpoints) {
        assert.strictEqual((yield* visitor.send(path, { method, ...bodyOf(method) })).status, 401, `${method} ${path}`)
      }
    }))

  it.effect.each(Object.keys(refused))("refuses %s", (rule) =>
    Effect.gen(function*() {
      const { code, headers, of } = refused[rule]!
      const { link, port } = yield* ConsoleServer
      const { performed } = yield* ConsoleScene
      const visitor = yield* signIn(port, link())
      yield* TestClock.adjust("1 minute")
      yield* new Visitor(port).send("/console")
      const other = yield* signIn(port, link())
      assert.notStrictEqual(visitor.csrfToken, other.csrfToken)
      for (const [method, path] of of) {
        for (const sent of headers(visitor.csrfToken, other.csrfToken, port)) {
          const answer = yield* visitor.send(path, { method, headers: sent, ...bodyOf(method) })
          assert.deepStrictEqual([answer.status, codeOf(answer)], [403, code], JSON.stringify([method, path, sent]))
        }
      }
      assert.deepStrictEqual(performed, [])
      assert.strictEqual((yield* visitor.send("/console/api/session")).status, 200, "the session has not ended")
    }).pipe(Effect.provide(Served)))

  test("tells a page of another origin nothing of a session, and does not prolong it", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      yield* TestClock.adjust("40 minutes")
      for (const [method, path] of endpoints) {
        for (const browser of [visitor, new Visitor(port)]) {
          const headers = { "sec-fetch-site": "cross-site" }
          const refused = yield* browser.send(path, { method, headers, ...bodyOf(method) })
          assert.deepStrictEqual([refused.status, codeOf(refused)], [403, "foreign_origin"], `${method} ${path}`)
        }
      }
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual((yield* visitor.send("/console/api/session")).status, 401)
    }))

  test("prolongs a session by requests of the operator, and not by those that the page makes by itself", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      const look = (headers: Visit["headers"] = {}) =>
        Effect.map(visitor.send("/console/api/session", { headers }), ({ status }) => status)
      for (let times = 0; times < 3; times++) {
        yield* TestClock.adjust("40 minutes")
        assert.strictEqual(yield* look(), 200)
      }
      yield* TestClock.adjust("40 minutes")
      assert.strictEqual(yield* look({ [refreshHeader]: "1" }), 200)
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual(yield* look(), 401)
    }))

  test("serves browsers that send no fetch metadata", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      const headers = { "sec-fetch-site": undefined }
      assert.strictEqual((yield* visitor.send("/console/api/session", { headers })).status, 200)
      assert.strictEqual((yield* visitor.send("/console/api/session", { method: "DELETE", headers })).status, 204)
    }))

  test("sets cookies that scripts cannot read and that stay on this site, below the path of the console", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const answer = yield* new Visitor(port).open(link())
      const [line = "", ...others] = answer.headers["set-cookie"] ?? []
      assert.deepStrictEqual(others, [])
      const [pair, ...attributes] = line.split("; ")
      assert.match(pair!, new RegExp(`^gateway_console_${port}_session=[A-Za-z0-9_-]{43}$`))
      assert.sameMembers(attributes, ["HttpOnly", "SameSite=Strict", "Path=/console"])
    }))

  test("answers requests that do not meet the contract with 404, 405, 413, 415 and 422, and repeats nothing", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const { performed } = yield* ConsoleScene
      const visitor = yield* signIn(port, link())
      const actions = `/console/api/operations/${id}/actions`
      const marker = "<script>marker"
      const post = (body: string, headers: Visit["headers"] = {}) => ({ method: "POST", body, headers })
      const action = (members: object) => JSON.stringify({ action: "review", revision: 3, reason: null, ...members })
      const cases: ReadonlyArray<readonly [number, string, Visit]> = [
        [422, actions, post(action({ action: marker }))],
        [422, actions, post(action({ revision: "3" }))],
        [422, actions, post(action({ reason: "x".repeat(1025) }))],
        [422, actions, post(`{"action": "${marker}`)],
        [422, actions, post("")],
        [422, `/console/api/operations/${marker}`.replace("<", "%3C"), {}],
        [422, "/console/api/operations?state=marker", {}],
        [422, "/console/api/operations?queue=marker", {}],
        [422, "/console/api/operations?after=marker", {}],
        [422, "/console/api/overview?hours=2", {}],
        [422, "/console/api/find", {}],
        [422, `/console/api/find?text=${"x".repeat(1025)}`, {}],
        [404, "/console/api/other", {}],
        [404, "/console/api", {}],
        [405, "/console/api/session", { method: "PUT", body: "{}" }],
        [405, "/console/api/events", { method: "DELETE" }],
        [413, actions, post(action({ reason: marker, more: "x".repeat(20_000) }))],
        [422, actions, post(action({}), { "transfer-encoding": "chunked" })],
        [415, actions, post(action({}), { "content-type": "text/plain" })],
        [415, actions, post(action({}), { "content-type": undefined })]
      ]
      for (const [status, path, visit] of cases) {
        const refused = yield* visitor.send(path, visit)
        assert.strictEqual(refused.status, status, `${path} ${visit.body?.slice(0, 40)}: ${refused.text}`)
        const { instance, request_id, ...rest } = decodeProblem(JSON.parse(refused.text))
        assert.strictEqual(refused.headers["content-type"], "application/problem+json")
        assert.strictEqual(refused.headers["x-request-id"], request_id)
        assert.strictEqual(instance, path.replace(/\?.*/, ""))
        assert.notInclude(JSON.stringify(rest), "marker")
        assertLogged(yield* Observer, request_id, rest.code)
      }
      assert.deepStrictEqual(performed, [])
    }))
})
