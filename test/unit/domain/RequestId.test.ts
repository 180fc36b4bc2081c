/**
 * A request id that a client may choose has 8 to 128 safe characters. The tests try values at the limits, and the
 * specification's pattern by property.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { isRequestId, RequestId } from "../../../src/domain/RequestId.ts"

const safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-"

describe("a request id", () => {
  it("has 8 to 128 characters", () => {
    assert.deepStrictEqual(
      [0, 1, 7, 8, 9, 127, 128, 129, 1000].filter((length) => isRequestId("x".repeat(length))),
      [8, 9, 127, 128]
    )
  })

  it("consists of A-Z, a-z, 0-9, '.', '_', '~' and '-' alone", () => {
    for (let code = 0; code < 0x300; code++) {
      const character = String.fromCodePoint(code)
      assert.strictEqual(isRequestId(`1234567${character}`), safe.includes(character), `U+${code.toString(16)}`)
    }
    for (const character of ["é", "\u2028", "😀", "\ud83d"]) assert.isFalse(isRequestId(`12345678${character}`))
  })

  it("has no line break at its end", () => {
    for (const ending of ["\n", "\r", "\r\n", "\0"]) assert.isFalse(isRequestId(`12345678${ending}`))
  })

  it("is a string", () => {
    for (const value of [undefined, null, 12345678, ["12345678"], {}]) assert.isFalse(isRequestId(value))
  })

  it.effect.prop("is valid only if it fits the specification's pattern", [RequestId], ([id]) =>
    Effect.sync(() => {
      assert.isTrue(id.length >= 8 && id.length <= 128 && [...id].every((character) => safe.includes(character)), id)
    }), { arbitrary: { runs: 300 } })
})
