/** The position of a list is read back from its text, and from no other text. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { decodePosition, encodePosition } from "../../../../../src/services/sql/operators/searchSources.ts"

const id = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"
const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

describe("the position of a list", () => {
  it("is read back as it was", () => {
    assert.deepStrictEqual(decodePosition(encodePosition("a", ["1", id]), "a", ["instant", "id"]), ["1", id])
    assert.deepStrictEqual(decodePosition(encodePosition("k", ["x", "y"]), "k", ["name", "name"]), ["x", "y"])
  })

  it("of another list, of another form or with a value that PostgreSQL would refuse is unknown", () => {
    const wrong = [
      encodePosition("b", ["1", id]),
      encodePosition("a", ["1"]),
      encodePosition("a", ["1", id, id]),
      encodePosition("a", ["x", id]),
      encodePosition("a", ["9".repeat(16), id]),
      encodePosition("a", ["-1", id]),
      encodePosition("a", ["1", "x"]),
      base64([2, "a", "1", id]),
      base64([1, "a", 1, id]),
      base64({ 0: 1 }),
      "",
      "%",
      base64(null)
    ]
    for (const text of wrong) assert.isNull(decodePosition(text, "a", ["instant", "id"]), text)
    assert.isNull(decodePosition(encodePosition("a", ["9".repeat(19), id]), "a", ["position", "id"]))
    assert.isNull(decodePosition(encodePosition("k", ["a\0", "y"]), "k", ["name", "name"]))
  })

  it("is unknown for any other text", () => {
    fc.assert(fc.property(fc.string(), (text) => assert.isNull(decodePosition(text, "a", ["instant", "id"]))))
  })
})
