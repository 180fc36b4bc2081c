import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import { isEvidence } from "../../../src/domain/Operation.ts"
import { answered } from "../../../src/submission/Evidence.ts"

const nested = (levels: number): Schema.Json => levels === 0 ? 1 : [nested(levels - 1)]

/** As a body of brackets can be parsed, but no recursion could build it. */
const bottomless = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as Schema.Json

describe("Evidence", () => {
  it("is what the provider answered, as it came", () => {
    for (const answer of [null, 0, "text", [], {}, { a: [{ b: "\u0000" }] }, nested(64)]) {
      assert.deepStrictEqual(answered("submission", answer), { by: "submission", answer })
    }
  })

  it("leaves out an answer that could not be kept, and says so, so that the outcome can be recorded all the same", () => {
    for (const answer of [nested(65), bottomless, "x".repeat(65_535), { a: "x".repeat(70_000) }]) {
      const evidence = answered("status_read", answer)
      assert.sameMembers(Object.keys(evidence), ["by", "answer_omitted"])
      assert.isBelow(JSON.stringify(evidence).length, 200)
    }
  })

  it("is always proof enough to leave indeterminate: an object that says something", () => {
    for (const answer of [null, {}, [], bottomless]) assert.isTrue(isEvidence(answered("status_read", answer)))
  })
})
