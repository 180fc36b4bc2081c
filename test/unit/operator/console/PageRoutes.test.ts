/** The pages of the console: their headers, who gets which page, and the files of the page. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { ConsoleScene } from "../../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../../fixtures/console/ConsoleServer.ts"
import { signIn, Visitor } from "../../../fixtures/console/Visitor.ts"

const Served = Layer.provideMerge(consoleServer(ConsoleScene.services), ConsoleScene.layer)

const test = (rule: string, body: () => Effect.Effect<void, never, ConsoleServer>) =>
  it.effect(rule, () => Effect.provide(body(), Served))

const navigation = { "sec-fetch-mode": "navigate" }
const indexPage = "<!doctype html><title>Console</title>"

describe("the pages of the console", () => {
  test("have a policy without anything inline or foreign, and are in no cache and no frame", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = new Visitor(port)
      const answers = [yield* visitor.send("/console"), yield* visitor.open(link()), yield* visitor.open(link())]
      for (const path of ["/console", "/console/operations/x", "/console/api/session", "/console/api/other"]) {
        answers.push(yield* visitor.send(path))
      }
      for (const { headers } of answers) {
        assert.strictEqual(headers["cache-control"], "no-store")
        assert.strictEqual(headers["x-content-type-options"], "nosniff")
        assert.strictEqual(headers["referrer-policy"], "no-referrer")
        assert.strictEqual(headers["cross-origin-opener-policy"], "same-origin")
        assert.strictEqual(headers["cross-origin-resource-policy"], "same-origin")
        const policy = new Map(
          headers["content-security-policy"]?.toString().split("; ").map((rule) => {
            const [name = "", ...sources] = rule.split(" ")
            return [name, sources.join(" ")]
          })
        )
        for (const name of ["default-src", "base-uri", "form-action", "frame-ancestors"]) {
          assert.strictEqual(policy.get(name), "'none'", name)
        }
        for (const name of ["script-src", "style-src", "img-src", "connect-src", "font-src"]) {
          assert.strictEqual(policy.get(name), "'self'", name)
        }
      }
    }))

  test("are the index page for operators on every path, and the way in for others", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      for (const path of ["/console", "/console/", "/console/queues/held", "/console/operations/x?tab=1"]) {
        assert.strictEqual((yield* visitor.send(path)).text, indexPage, path)
        const { text } = yield* new Visitor(port).send(path, { headers: navigation })
        assert.include(text, "The terminal of this process shows a link")
        assert.notInclude(text, "http-equiv")
      }
    }))

  test("do not end a session because a link of another site leads to them, where browsers withhold the cookie", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      const path = "/console/operations/019aa4f0-5c00-7b1e-8d2f-000000000001"
      const foreign = { ...navigation, "sec-fetch-site": "cross-site" }
      const withheld = yield* visitor.send(path, { headers: { ...foreign, cookie: undefined } })
      assert.include(withheld.text, `<meta http-equiv="refresh" content="0;url=${path}">`)
      assert.strictEqual((yield* visitor.send(path, { headers: navigation })).text, indexPage)
      // The next request comes from the console's own page, so that it cannot go on without end.
      const { text } = yield* new Visitor(port).send(path, { headers: navigation })
      assert.notInclude(text, "http-equiv")
    }))

  test("write a path of the visitor only as text", () =>
    Effect.gen(function*() {
      const { port } = yield* ConsoleServer
      const path = "/console/\"><script>alert(1)</script>&'"
      const { text } = yield* new Visitor(port).send(path.replaceAll(/[<>" ]/g, encodeURIComponent), {
        headers: { ...navigation, "sec-fetch-site": "cross-site" }
      })
      assert.notInclude(text, "<script")
      assert.include(text, "alert(1)")
      assert.include(text, "&amp;&#39;")
    }))

  test("get their files without a session, for a year, and nothing else below that path", () =>
    Effect.gen(function*() {
      const { port } = yield* ConsoleServer
      const visitor = new Visitor(port)
      const file = yield* visitor.send("/console/assets/console-1a2b3c.js")
      assert.deepStrictEqual([file.status, file.text], [200, "export {}"])
      assert.strictEqual(file.headers["content-type"], "text/javascript; charset=utf-8")
      assert.strictEqual(file.headers["cache-control"], "public, max-age=31536000, immutable")
      assert.strictEqual(file.headers["x-content-type-options"], "nosniff")
      for (
        const path of [
          "assets/",
          "assets/other.js",
          "assets/../index.html",
          "assets/%2e%2e/index.html",
          "assets/__proto__"
        ]
      ) {
        assert.strictEqual((yield* visitor.send(`/console/${path}`)).status, 404, path)
      }
      const head = yield* visitor.send("/console/assets/console-1a2b3c.js", { method: "HEAD" })
      assert.deepStrictEqual([head.status, head.text], [200, ""])
    }))

  test("answer other methods with 405", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
        for (const path of ["/console", "/console/queues/held", "/console/assets/console-1a2b3c.js"]) {
          assert.strictEqual((yield* visitor.send(path, { method })).status, 405, `${method} ${path}`)
        }
      }
    }))

  test("leave the other paths of the listener as they are", () =>
    Effect.gen(function*() {
      const { port } = yield* ConsoleServer
      const visitor = new Visitor(port)
      assert.include((yield* visitor.send("/")).text, "/console  The console of operators")
      assert.strictEqual((yield* visitor.send("/metrics")).status, 200)
      assert.strictEqual((yield* visitor.send("/consoles")).status, 404)
    }))
})
