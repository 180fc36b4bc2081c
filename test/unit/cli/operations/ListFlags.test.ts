/**
 * The call for the next page asks for the same operations, with any text in the filters: a shell reads the words that were meant.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import * as fc from "fast-check"
import { execFileSync } from "node:child_process"
import { type ListFlags, nextPageCall, toQuery } from "../../../../src/cli/operations/list.ts"
import { shellWord } from "../../../../src/node/process/Invocation.ts"
import { injections } from "../../../fixtures/mcp/HostileText.ts"

const none: ListFlags = {
  state: [],
  provider: Option.none(),
  olderThan: Option.none(),
  held: false,
  reversed: false,
  failed: false,
  approval: false,
  underReview: false,
  waiting: false,
  owner: Option.none(),
  client: Option.none(),
  key: Option.none(),
  reference: Option.none(),
  payee: Option.none(),
  operator: Option.none(),
  reason: Option.none(),
  order: "newest",
  limit: 50,
  after: Option.none()
}

/** The arguments that a shell passes to the program. */
const wordsOf = (call: string): ReadonlyArray<string> =>
  execFileSync("sh", ["-c", `printf '%s\\0' ${call}`], { encoding: "utf8" }).split("\0").slice(0, -1)

describe("The call for the next page", () => {
  it("repeats every flag as it was typed, and goes on after the page", () => {
    const typed = ["operations", "list", "--provider=-demo bank", "--reference", "it's $(here)", "--limit", "2"]
    const again = [...typed, "--after", "first", "--after=second", "--wide"]
    for (const secret of [["--database-url", "postgres://a:b@c"], ["--database-url=postgres://a:b@c"]]) {
      const words = wordsOf(nextPageCall([...secret, ...again], "-token"))
      assert.deepStrictEqual(words.slice(words.indexOf("operations")), [...typed, "--wide", "--after=-token"])
      assert.notInclude(words.join(), "postgres://")
    }
  })

  it("quotes any text, so that a shell reads it as one word and runs nothing of it", () => {
    const texts = [
      ...injections,
      ...fc.sample(fc.string({ unit: "grapheme", maxLength: 20 }), 200),
      "$(touch x)",
      "`id`",
      "a'b",
      "\\",
      "*",
      "~",
      "!",
      "#",
      "",
      "a\nb"
    ].map((text) => text.replaceAll("\0", "").toWellFormed())
    assert.deepStrictEqual(wordsOf(texts.map(shellWord).join(" ")), texts)
  })
})

describe("The filters of a list", () => {
  it.effect("name one queue at most", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(toQuery({ ...none, held: true, waiting: true }))
      assert.include(
        error.message,
        "at most one of --held, --under-review, --waiting, --reversed, --failed and --approval"
      )
      assert.deepStrictEqual(yield* toQuery({ ...none, underReview: true }), {
        queue: "under_review",
        order: "newest",
        limit: 50
      })
    }))

  it.effect("leave an age to the clock of the database", () =>
    Effect.gen(function*() {
      const { unchanged_for } = yield* toQuery({ ...none, olderThan: Option.some(Duration.hours(2)) })
      assert.deepStrictEqual(unchanged_for, Duration.hours(2))
    }))
})
