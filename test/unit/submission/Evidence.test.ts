/** Evidence holds the provider's answer, if it can be stored. The tests try answers of every shape, depth and size. */
import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import { isEvidence } from "../../../src/domain/Operation.ts"
import { answered } from "../../../src/submission/providers/AnswerRecord.ts"

const nested = (levels: number): Schema.Json => levels === 0 ? 1 : [nested(levels - 1)]

/** Nested too deeply for recursion, although a JSON parser accepts such a body. */
const bottomless = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as Schema.Json

describe("Evidence", () => {
  it("holds the provider's answer unchanged", () => {
    for (const answer of [null, 0, "text", [], {}, { a: [{ b: "\u0000" }] }, nested(64)]) {
      assert.deepStrictEqual(answered("submission", answer), { by: "submission", answer })
    }
  })

  it("omits an answer that cannot be stored, and says so, so that the outcome is still recorded", () => {
    for (const answer of [nested(65), bottomless, "x".repeat(65_535), { a: "x".repeat(70_000) }]) {
      const evidence = answered("status_read", answer)
      assert.sameMembers(Object.keys(evidence), ["by", "answer_omitted"])
      assert.isBelow(JSON.stringify(evidence).length, 200)
    }
  })

  it("is always a non-empty object, which suffices to leave indeterminate", () => {
    for (const answer of [null, {}, [], bottomless]) assert.isTrue(isEvidence(answered("status_read", answer)))
  })
})
