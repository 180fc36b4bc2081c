/** No text of an agent can look like a part of the question to the person. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { textOf } from "../../../src/mcp/HumanConfirmation.ts"
import { providerText } from "../../fixtures/mcp/HostileText.ts"

describe("The question to a person", () => {
  it("shows each value on one line of its own, in quotes, without a hidden character, and in full", () => {
    fc.assert(fc.property(fc.oneof(providerText, fc.string({ unit: "grapheme" })), (name) => {
      const lines = textOf({ question: "Pay?", facts: { Amount: "1.00 EUR", Creditor: name } }).split("\n")
      assert.deepStrictEqual(lines.slice(0, 3), ["Pay?", "", "Amount: \"1.00 EUR\""])
      assert.lengthOf(lines, 4)
      const [, shown] = /^Creditor: ("[^\p{C}\p{Zl}\p{Zp}<>`]*")$/u.exec(lines[3]!) ?? []
      assert.strictEqual(JSON.parse(shown!), name)
    }))
  })
})
