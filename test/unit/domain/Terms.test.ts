/** Amounts of terms in the smallest unit of their currency, for banks that take integers. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { payloadDecoders } from "../../../src/domain/PayloadSchemas.ts"
import { hasDigitsOfCurrency, toMinorUnits } from "../../../src/domain/Terms.ts"

describe("An amount with more digits than its currency has", () => {
  it.effect("fails at its member", () => {
    const Payment = Schema.Struct({ amount: Schema.String, currency: Schema.String, iban: Schema.String })
    const decode = payloadDecoders({ payment: Payment.check(hasDigitsOfCurrency) }).get("payment")!
    return Effect.gen(function*() {
      yield* decode({ amount: "12.50", currency: "EUR", iban: "x" })
      for (const [amount, currency] of [["12.505", "EUR"], ["1.5", "JPY"]]) {
        assert.deepStrictEqual(yield* Effect.flip(decode({ amount, currency, iban: "x" })), [{
          path: ["amount"],
          message: "Expected an amount with no more digits after the point than its currency has"
        }])
      }
    })
  })
})

describe("An amount in the smallest unit", () => {
  it.each(
    [
      ["12.50", "EUR", 1250],
      ["1.15", "USD", 115],
      ["7", "GBP", 700],
      ["0.5", "CHF", 50],
      ["750", "JPY", 750],
      ["1.234", "KWD", 1234],
      ["1.2", "KWD", 1200],
      ["1.2345", "CLF", 12_345]
    ] as const
  )("of %s %s is %d, by the digits of the currency", (amount, currency, units) => {
    assert.strictEqual(toMinorUnits({ amount, currency }), units)
  })

  it.each(
    [
      ["750.0", "JPY"],
      ["12.505", "EUR"],
      ["1.", "EUR"],
      ["-1", "EUR"],
      ["1e3", "EUR"],
      ["", "EUR"],
      ["99999999999999999", "EUR"]
    ] as const
  )("of %s %s is none", (amount, currency) => {
    assert.throws(() => toMinorUnits({ amount, currency }), TypeError)
  })
})
