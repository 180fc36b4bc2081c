/**
 * The header Accept chooses between JSON and a page. Properties compare the choice with a model of RFC 9110 §12.5.1, written by
 * hand, and with the rule for endpoints that have no pages.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { acceptsJson, preferredForm } from "../../../../src/server/gate/RequestChecks.ts"

const formOf = (accept: string) => preferredForm({ accept })

/** A media range without parameters, and its weight in thousandths. */
interface Range {
  readonly range: string
  readonly weight: number
}

const ranges = fc.array(
  fc.record({
    range: fc.constantFrom("*/*", "text/*", "text/html", "application/*", "application/json", "image/png", "TEXT/HTML"),
    weight: fc.oneof(fc.constantFrom(0, 1, 500, 900, 1000), fc.nat(1000))
  }),
  { minLength: 1, maxLength: 6 }
)

const separator = fc.constantFrom(",", ", ", " ,\t")

const write = (accepted: ReadonlyArray<Range>, between: string) =>
  accepted.map(({ range, weight }) => weight === 1000 ? range : `${range};q=${(weight / 1000).toFixed(3)}`).join(
    between
  )

/** The weight of a media type: that of the most exact range that matches it; of equal ranges, the greatest. */
const weightOf = (accepted: ReadonlyArray<Range>, type: string): number => {
  for (const exact of [type, type.replace(/\/.*/, "/*"), "*/*"]) {
    const matching = accepted.filter(({ range }) => range.toLowerCase() === exact)
    if (matching.length > 0) return Math.max(...matching.map(({ weight }) => weight))
  }
  return 0
}

/** Pieces of headers, well-formed and not. */
const pieces = ["text/html", "application/json", "*/*", "*", "text/", "/", ";", ",", ";q=", ";q=0", ";q=0.5", ";q=x"]
  .concat(
    [";q=-1", ";q=\"0.1\"", ";level=1", ";charset=utf-8", "\"", "=", " ", "\t", "ÿ", "q", "__proto__/constructor"]
  )

describe("Accept on an endpoint with pages", () => {
  it("chooses the heavier of HTML and JSON, and neither if both have no weight", () => {
    fc.assert(fc.property(ranges, separator, (accepted, between) => {
      const accept = write(accepted, between)
      const [html, json] = [weightOf(accepted, "text/html"), weightOf(accepted, "application/json")]
      if (html === json && html > 0) assert.isNotNull(formOf(accept), accept)
      else assert.strictEqual(formOf(accept), html > json ? "page" : json > 0 ? "json" : null, accept)
    }))
  })

  it("gives JSON to every client that takes JSON and names no HTML", () => {
    fc.assert(fc.property(fc.string({ unit: "binary-ascii", maxLength: 60 }), (accept) => {
      fc.pre(!/text/i.test(accept))
      assert.strictEqual(formOf(accept), acceptsJson({ accept }) ? "json" : null, accept)
    }))
  })

  it("accepts all that an endpoint without pages accepts, however the header is malformed", () => {
    fc.assert(fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 8 }), (chosen) => {
      const accept = chosen.join("")
      const form = formOf(accept)
      if (acceptsJson({ accept })) assert.isNotNull(form, accept)
      else assert.notStrictEqual(form, "json", accept)
      if (form === "page") assert.match(accept, /text\/(?:html|\*)|\*\/\*/, accept)
    }))
  })

  it.each([
    ["a browser", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", "page"],
    ["Safari", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "page"],
    ["a link checker", "text/html", "page"],
    ["a client that wants HTML of an encoding", "text/html; charset=utf-8", "page"],
    ["curl and fetch", "*/*", "json"],
    ["axios", "application/json, text/plain, */*", "json"],
    ["a client of problems", "application/problem+json, application/json", "json"],
    ["a client that takes HTML if it must", "application/json, text/html;q=0.9", "json"],
    ["an image of a page", "image/avif,image/webp,image/png,*/*;q=0.5", "json"],
    ["a client of another form", "application/xml", null],
    ["a client of another level of HTML", "text/html;level=1", null],
    ["a client that refuses all", "*/*;q=0", null],
    ["an empty header", "", "json"]
  ])("knows %s: %s", (_who, accept, form) => {
    assert.strictEqual(formOf(accept), form)
  })

  it("takes a missing header for that of a program", () => {
    assert.strictEqual(preferredForm({}), "json")
  })

  it("takes a header that is longer than 1024 characters for a missing one", () => {
    const padded = (length: number) => `text/html, ${"x/y, ".repeat(300)}`.slice(0, length - 3) + "x/y"
    assert.deepStrictEqual([formOf(padded(1024)), formOf(padded(1025))], ["page", "json"])
  })
})
