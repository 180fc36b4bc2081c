/**
 * The gateway serves its API description, a page under its own policy, and a description of each problem. The tests
 * request them over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { createHash } from "node:crypto"
import { Api } from "../../../src/api/Api.ts"
import { documentedApi } from "../../../src/server/Documentation.ts"
import type { Document } from "../../fixtures/http/HttpConformance.ts"
import { Gateway, memoryGateway } from "../../fixtures/http/HttpGateway.ts"
import { baseUrl, mutationProblemTable, problemTable } from "../../fixtures/http/HttpProblem.ts"
import { json } from "../../fixtures/http/HttpWire.ts"
import { TeamApi } from "../../fixtures/http/TeamPayments.ts"

/** The directives of a policy (CSP level 3), by name. */
const parsePolicy = (policy: string): ReadonlyMap<string, ReadonlyArray<string>> =>
  new Map(
    policy.split(";").map((directive) => {
      const [name, ...sources] = directive.trim().split(/\s+/)
      return [name!, sources]
    })
  )

interface Description {
  readonly type: string
  readonly code: string
  readonly title: string
  readonly status: number
  readonly retryable: boolean
  readonly meaning: string
  readonly action: string
}

layer(memoryGateway(), { excludeTestServices: true })("The documentation", (it) => {
  it.effect("is described for the base URL, as JSON", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const answer = yield* send("/openapi.json")
      assert.strictEqual(answer.headers["content-type"], "application/json")
      const document = json(answer) as { servers: ReadonlyArray<{ url: string }> }
      assert.deepStrictEqual(document.servers, [{ url: baseUrl }])
    }))

  it.effect("is a page that loads nothing from other hosts and sends nothing to them, as its policy demands", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { headers, text } = yield* send("/docs")
      assert.match(headers["content-type"]!, /^text\/html/)
      const policy = parsePolicy(headers["content-security-policy"]!)
      assert.deepStrictEqual(policy.get("default-src"), ["'none'"])
      assert.deepStrictEqual(policy.get("frame-ancestors"), ["'none'"])
      assert.deepStrictEqual(policy.get("connect-src"), ["'self'"])
      for (const name of ["base-uri", "form-action"]) assert.deepStrictEqual(policy.get(name), ["'none'"])
      for (const sources of policy.values()) {
        for (const source of sources) assert.notMatch(source, /^\*|https?:|unsafe-eval/)
      }
      // The policy blocks every resource that the page loads by tag, so the page must load none.
      const markup = text.replaceAll(
        /<script\b[^>]*>[\s\S]*?<\/script>/g,
        (script) => script.slice(0, script.indexOf(">") + 1)
      )
      assert.notMatch(markup, /<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?!data:)/)
      assert.match(text, /"withDefaultFonts":\s*false/)
      // The policy names the scripts of the page and allows no other.
      const scripts = [...text.matchAll(/<script>([^]*?)<\/script>/g)].map(([, script]) =>
        `'sha256-${createHash("sha256").update(script!).digest("base64")}'`
      )
      assert.strictEqual(scripts.length, 2)
      assert.deepStrictEqual(policy.get("script-src"), scripts)
      assert.include(policy.get("style-src") ?? [], "'unsafe-inline'")
    }))

  it.effect("may be cached for five minutes by its reader alone; other system responses may not be cached", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const cacheControl = (target: string) => Effect.map(send(target), ({ headers }) => headers["cache-control"])
      for (const target of ["/docs", "/openapi.json"]) {
        assert.strictEqual(yield* cacheControl(target), "private, max-age=300")
      }
      for (const target of ["/healthz", "/readyz", "/problems", "/problems/not_ready"]) {
        assert.strictEqual(yield* cacheControl(target), "no-store")
      }
    }))

  it.effect("declares HTML beside JSON for the two endpoints with pages, and says that their form varies", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { paths } = json(yield* send("/openapi.json")) as Pick<Document, "paths">
      const pages = Object.entries(paths).flatMap(([path, { get }]) =>
        Object.entries(get?.responses ?? {}).filter(([, { content = {} }]) => "text/html" in content).map((
          [status, { content = {}, headers = {} }]
        ) => [path, status, Object.keys(content)[0], "Vary" in headers])
      )
      assert.deepStrictEqual(pages, [
        ["/problems", "200", "application/json", true],
        ["/problems/{code}", "200", "application/json", true]
      ])
      const unknown = yield* send("/problems/unknown", { headers: { accept: "text/html" } })
      assert.strictEqual(unknown.status, 404)
      assert.strictEqual(unknown.headers["content-type"], "application/problem+json")
    }))

  it.effect("of problems describes every code with its action, including those of mutation endpoints", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const table: Readonly<Record<string, { readonly status: number; readonly retryable: boolean }>> = {
        ...problemTable,
        ...mutationProblemTable
      }
      const { problems } = json(yield* send("/problems")) as { problems: ReadonlyArray<Description> }
      assert.sameMembers(problems.map(({ code }) => code), Object.keys(table))
      for (const problem of problems) {
        const { retryable, status } = table[problem.code]!
        assert.deepStrictEqual([problem.status, problem.retryable], [status, retryable], problem.code)
        for (const text of [problem.title, problem.meaning, problem.action]) assert.isNotEmpty(text)
        assert.strictEqual(problem.type, `${baseUrl}/problems/${problem.code}`)
        // The problem type is a URL that serves the description.
        const path = problem.type.slice(baseUrl.length)
        assert.deepStrictEqual(json(yield* send(path)), problem)
      }
    }))
})

describe("The documentation of several APIs", () => {
  const Named = (identifier: string) =>
    HttpApi.make("other").add(HttpApiGroup.make(identifier).add(HttpApiEndpoint.get("read", "/other")))

  it("is the gateway's own without an application", () => {
    assert.strictEqual<unknown>(documentedApi([]), Api)
  })

  it("keeps one copy of the gateway's groups if an application added them to its own API", () => {
    const { paths } = OpenApi.fromApi(documentedApi([TeamApi.addHttpApi(Api)]))
    assert.strictEqual(Object.keys(paths).length, Object.keys(OpenApi.fromApi(Api).paths).length + 1)
  })

  it("keeps the title of an API that has none of its own: its identifier", () => {
    assert.strictEqual(OpenApi.fromApi(documentedApi([Named("others")])).info.title, "other")
  })

  it("refuses two groups of one name, because one would hide the other", () => {
    assert.throws(() => documentedApi([TeamApi, Named("payments")]), /have the name payments/)
    assert.throws(() => documentedApi([Named("operations")]), /have the name operations/)
  })

  it("runs the application's own transformation last", () => {
    const api = TeamApi.annotate(OpenApi.Transform, (document) => ({ ...document, security: [{ bearer: [] }] }))
    assert.deepStrictEqual(OpenApi.fromApi(documentedApi([api])).security, [{ bearer: [] }])
  })

  it("describes the endpoints of the gateway as its own document does", () => {
    const alone = OpenApi.fromApi(Api)
    const together = OpenApi.fromApi(documentedApi([TeamApi]))
    for (const [path, item] of Object.entries(alone.paths)) assert.deepStrictEqual(together.paths[path], item, path)
  })
})
