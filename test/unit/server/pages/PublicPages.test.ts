/**
 * The gateway answers browsers with pages, and programs with JSON. Its fixture checks the markup and the policy of each page. The
 * tests request the pages over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { html } from "../../../../src/server/pages/Html.ts"
import { pageType } from "../../../fixtures/http/HttpConformance.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl, mutationProblemTable, problemTable } from "../../../fixtures/http/HttpProblem.ts"
import { issue } from "../../../fixtures/http/HttpScene.ts"
import { json } from "../../../fixtures/http/HttpWire.ts"

const ofBrowser = {
  headers: { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8" }
}

const ofPrograms = [undefined, "*/*", "application/json", "application/json, text/html;q=0.9", "image/png, */*;q=0.1"]
  .map((accept) => accept === undefined ? {} : { headers: { accept } })

const table: Readonly<Record<string, { readonly status: number; readonly retryable: boolean }>> = {
  ...problemTable,
  ...mutationProblemTable
}

/** The text of a page, as a person reads it. */
const textOf = (page: string): string =>
  page.replaceAll(/<\/?code>/g, "").replaceAll(/<style>[^]*?<\/style>|<[^>]*>/g, " ").replaceAll("&#39;", "'")
    .replaceAll("&quot;", "\"")
    .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&").replaceAll(/\s+/g, " ")

/** The tags of a page with their attributes. */
const tagsOf = (page: string): ReadonlyArray<string> => page.match(/<[^>]*>/g) ?? []

layer(memoryGateway(), { excludeTestServices: true })("The pages of problems", (it) => {
  it.effect("are for browsers; programs get the same JSON for each of their requests", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const target of ["/problems", "/problems/not_ready"]) {
        const page = yield* send(target, ofBrowser)
        assert.deepStrictEqual([page.status, page.headers["content-type"]], [200, pageType])
        const bodies = new Set<string>()
        for (const request of ofPrograms) {
          const { headers, status, text } = yield* send(target, request)
          assert.deepStrictEqual([status, headers["content-type"]], [200, "application/json"])
          assert.deepStrictEqual([headers["vary"], headers["cache-control"]], ["accept", "no-store"])
          bodies.add(text)
        }
        assert.strictEqual(bodies.size, 1)
      }
    }))

  it.effect("are no answer for clients that take neither HTML nor JSON", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      for (
        const accept of ["application/xml", "text/plain", "text/html;q=0, application/json;q=0", "text/html;level=1"]
      ) {
        const answer = yield* send("/problems", { headers: { accept } })
        assertProblemOf(answer, "not_acceptable")
        assert.strictEqual(answer.headers["vary"], "accept")
      }
      assertProblemOf(yield* send("/v1/operations", { token, ...ofHtmlAlone }), "not_acceptable")
    }))

  it.effect("list every code once, with a link to its page", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { text } = yield* send("/problems", ofBrowser)
      const codes = [
        ...text.matchAll(/<tr id="([a-z_]+)">\s*<td>(\d+)<\/td>\s*<th scope="row"><a href="problems\/([a-z_]+)">/g)
      ]
      assert.sameMembers(codes.map(([, code]) => code), Object.keys(table))
      for (const [, code, status, target] of codes) {
        assert.deepStrictEqual([Number(status), target], [table[code!]!.status, code])
      }
      for (const [, anchor] of text.matchAll(/href="#([a-z-]+)"/g)) assert.include(text, ` id="${anchor}"`)
    }))

  it.effect("say what the problem means, what to do, and show the whole problem", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const [code, { retryable, status }] of Object.entries(table)) {
        const page = yield* send(`/problems/${code}`, ofBrowser)
        const description = json(yield* send(`/problems/${code}`)) as Record<"title" | "meaning" | "action", string>
        const shown = textOf(page.text)
        for (const text of [description.meaning, description.action]) {
          assert.include(shown, text.replaceAll("`", ""))
        }
        assert.include(page.text, `<h1>${description.title}</h1>`)
        assert.include(shown, `Retry the same request ${retryable ? "Yes, later" : "No"} `)
        const example = JSON.parse(/\{ "type".* "submission_uncertain": (?:true|false) \}/.exec(shown)![0]) as object
        assert.deepInclude(example, { type: `${baseUrl}/problems/${code}`, code, status, retryable })
        const others = Object.keys(table).filter((other) => other !== code && table[other]!.status === status)
        const linked = [...page.text.matchAll(/<li><a href="\.\.\/problems\/([a-z_]+)">/g)].map(([, other]) => other)
        assert.sameMembers(linked, others)
      }
    }))

  it.effect("of an unknown code do not exist: browsers and programs get the same problem", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      for (const code of ["unknown", "Not_ready", "constructor", "__proto__", "%3Cscript%3E", "a%2Fb", "%00", "…"]) {
        const target = `/problems/${encodeURI(decodeURIComponent(code)).replaceAll("a/b", "a%2Fb")}`
        for (const problem of [yield* send(target, ofBrowser), yield* send(target)]) {
          assertProblemOf(problem, "route_not_found")
          assert.strictEqual(problem.headers["vary"], "accept")
        }
      }
    }))
})

const ofHtmlAlone = { headers: { accept: "text/html" } }

describe("Text from outside", () => {
  const hostile = fc.oneof(
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.array(
      fc.constantFrom(
        "<",
        ">",
        "\"",
        "'",
        "&",
        "</code>",
        "<script>",
        "javascript:",
        "&lt;",
        "-->",
        "\ud800",
        "\0",
        "`",
        "a"
      ),
      { maxLength: 12 }
    ).map((parts) => parts.join(""))
  )

  it("never becomes markup", () => {
    fc.assert(fc.property(hostile, (text) => {
      const { markup } = html`<p><code>${text}</code></p>`
      assert.deepStrictEqual(tagsOf(markup), ["<p>", "<code>", "</code>", "</p>"])
      const shown = /<code>([^]*?)<\/code>/.exec(markup)![1]!
      assert.notMatch(shown, /[<>"']|&(?!(?:amp|lt|gt|quot|#39);)/)
      assert.isTrue(shown.isWellFormed())
    }))
  })

  it("never ends a quoted attribute", () => {
    fc.assert(fc.property(hostile, (text) => {
      const { markup } = html`<a href="${text}">x</a>`
      assert.match(markup, /^<a href="[^"<>]*">x<\/a>$/)
    }))
  })
})
