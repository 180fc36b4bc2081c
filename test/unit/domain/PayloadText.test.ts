/** Schemas of the text in payloads, and exact arithmetic with decimal text. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { decimalText, minorUnits, productInCents, textUpTo } from "../../../src/domain/PayloadText.ts"

const isAmount = Schema.is(decimalText({ whole: 3, fraction: 2, expected: "an amount" }))

describe("Decimal text", () => {
  it.each(["1", "0.01", "999.99", "10", "100.5"])("may be %s", (text) => assert.isTrue(isAmount(text)))

  it.each(["0", "0.00", "", "01", "1000", "1.234", "1.", ".5", "-1", "+1", "1e2", " 1", "1\n", "１"])(
    "may not be %j",
    (text) => assert.isFalse(isAmount(text))
  )

  const cents = fc.integer({ min: 0, max: 99_999_999_999 })
  const textOf = (amount: number) => `${Math.floor(amount / 100)}.${String(amount % 100).padStart(2, "0")}`

  it("has each amount in its smallest unit", () => {
    fc.assert(fc.property(cents, (amount) => assert.strictEqual(minorUnits(textOf(amount), 2), amount)))
    assert.deepStrictEqual(["12", "12.5", "1.15"].map((text) => minorUnits(text, 2)), [1200, 1250, 115])
  })

  it("has a product that is never below the exact one, by less than a cent", () => {
    fc.assert(
      fc.property(cents, cents, (one, other) => {
        const excess = BigInt(productInCents(textOf(one), textOf(other)).replace(".", "")) * 100n -
          BigInt(one) * BigInt(other)
        assert.isTrue(excess >= 0n && excess < 100n)
      }),
      { examples: [[1, 1], [0, 0]] }
    )
  })
})

describe("Text up to a length", () => {
  it.each([["", false], ["a", true], ["abc", true], ["abcd", false]] as const)("of 3: %j is one: %s", (text, is) => {
    assert.strictEqual(Schema.is(textUpTo(3))(text), is)
  })
})
