/** `readWait` against the grammar of RFC 7240 §2: the tests write headers whose meaning they know. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { maxWait, readWait } from "../../../../src/server/waits/Preferences.ts"

interface Preference {
  readonly text: string
  readonly name: string
  /** The value as the grammar defines it; null without one. */
  readonly value: string | null
}

const blank = fc.constantFrom("", " ", "\t", "  ")
const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,8}$/)

/** A quoted string of this content, with some characters escaped. */
const quoted = (content: string) =>
  fc.array(fc.boolean(), { minLength: content.length, maxLength: content.length }).map((escapes) =>
    `"${
      [...content].map((character, at) =>
        escapes[at] === true || "\"\\".includes(character) ? `\\${character}` : character
      )
        .join("")
    }"`
  )

const wordOf = (content: string) =>
  /^[!#$%&'*+.^_`|~0-9a-zA-Z-]+$/.test(content)
    ? fc.oneof(fc.constant(content), quoted(content))
    : quoted(content)

/** Contents that look like other parts of a header. */
const content = fc.oneof(
  token,
  fc.stringMatching(/^[\x20-\x7e]{0,8}$/),
  fc.constantFrom(", wait=5", "; wait=5", "a\"b")
)

const parameter = fc.tuple(blank, token, fc.option(content.chain(wordOf), { nil: null }))
  .map(([space, name, word]) => `;${space}${name}${word === null ? "" : `=${word}`}`)

const preference = (name: fc.Arbitrary<string>, contents: fc.Arbitrary<string>): fc.Arbitrary<Preference> =>
  fc.record({
    name,
    value: fc.option(contents, { nil: null }),
    around: fc.tuple(blank, blank),
    parameters: fc.array(parameter, { maxLength: 2 })
  }).chain(({ around: [before, after], name, parameters, value }) =>
    (value === null ? fc.constant("") : wordOf(value).map((word) => `${before}=${after}${word}`))
      .map((assigned) => ({ text: `${name}${assigned}${parameters.join("")}`, name, value }))
  )

const waits = preference(
  fc.constantFrom("wait", "Wait", "WAIT"),
  fc.oneof(fc.nat(100).map(String), fc.constantFrom("0", "00", "060", "1e1", "-1", "1.5", "", "99999999999999999999"))
)

const others = preference(token.filter((name) => name.toLowerCase() !== "wait"), content)

const meaningOf = (preferences: ReadonlyArray<Preference>): number | null => {
  const first = preferences.find(({ name }) => name.toLowerCase() === "wait")
  const seconds = /^\d+$/.test(first?.value ?? "") ? Math.min(Number(first!.value), maxWait) : 0
  return seconds > 0 ? seconds : null
}

describe("Prefer", () => {
  it("waits for the seconds of the first `wait`, at most 60, with any text around it", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(waits, others), { maxLength: 5 }),
        fc.array(fc.constantFrom(",", ", ", " ,", ",,", ", ,"), { minLength: 5, maxLength: 5 }),
        (preferences, commas) => {
          const header = preferences.map(({ text }, at) => (at === 0 ? "" : commas[at]) + text).join("")
          assert.strictEqual(readWait(header), meaningOf(preferences), JSON.stringify(header))
        }
      ),
      { numRuns: 2000 }
    )
  })

  it("of any other bytes waits not at all, or for 1 to 60 seconds", () => {
    const pieces = fc.constantFrom("wait", "=", "5", "\"", "\\", ",", ";", " ", "\t", "x", "\u00e9", "\n")
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 20 }).map((all) => all.join("")), (header) => {
        const seconds = readWait(header)
        assert(seconds === null || (Number.isInteger(seconds) && seconds >= 1 && seconds <= maxWait))
      }),
      { numRuns: 2000 }
    )
  })

  it.each([
    [undefined, null],
    ["", null],
    ["wait", null],
    ["wait=10", 10],
    ["wait=\"10\"", 10],
    ["respond-async, wait=10", 10],
    ["wait=61", 60],
    ["wait=0, wait=5", null],
    ["wait=x, wait=5", null],
    ["foo=\"a, wait=5\", wait=3", 3],
    // The string never ends, so the rest of the header is part of it.
    ["foo=\"a, wait=5", null],
    ["foo=\"a, wait=5\\", null],
    ["wait=5 6", null],
    ["xwait=5", null]
  ])("reads %j as %j", (header, seconds) => {
    assert.strictEqual(readWait(header), seconds)
  })
})
