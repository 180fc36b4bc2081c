/** What a person reads on the own device: the whole amount, and what fits of the payee. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { bindingMessageOf } from "../../../src/ciba/CibaApprovals.ts"

const terms = fc.record({
  amount: fc.stringMatching(/^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,2})?$/),
  currency: fc.constantFrom("EUR", "USD"),
  payee: fc.oneof(fc.string({ minLength: 1, maxLength: 255, unit: "binary" }), fc.stringMatching(/^[A-Z0-9]{8,34}$/))
})

describe("A binding message", () => {
  it("has the whole amount and currency, and the end of the payee, within the limits of providers", () => {
    fc.assert(fc.property(terms, fc.integer({ min: 10, max: 60 }), ({ amount, currency, payee }, length) => {
      const message = bindingMessageOf(length)({ amount, currency, payee })
      const money = `${amount}${currency}/`
      if (message === null && payee.includes(" | ")) return
      if (message === null) return assert.isAbove(money.length + "..1234".length, length)
      assert.match(message, /^[a-zA-Z0-9\-._+/!?#]+$/)
      assert.isAtMost(message.length, length)
      assert.isTrue(message.startsWith(money))
      const shown = message.slice(money.length)
      if (!/^[A-Z0-9]+$/.test(payee)) return
      assert.isTrue(shown === payee || (shown.startsWith("..") && payee.endsWith(shown.slice(2))))
      if (shown !== payee) assert.lengthOf(message, length)
    }))
  })

  it.each([
    [20, "DE02120300000000202051", "70.00EUR/..000202051"],
    [50, "DE02120300000000202051", "70.00EUR/DE02120300000000202051"],
    [20, "Bäcker & Co", "70.00EUR/B?cker???Co"],
    [14, "DE02120300000000202051", null],
    // The end alone would be the same for each roll number, or for each account.
    [40, "secondary 0002 | UK.OBIE.SortCodeAccountNumber 08080021325698", null],
    [80, "secondary 0002 | A 08080021325698", "70.00EUR/secondary?0002???A?08080021325698"],
    [80, "secondary 0003 | A 08080021325698", "70.00EUR/secondary?0003???A?08080021325698"]
  ])("of %i characters for %s is %s", (length, payee, expected) => {
    assert.strictEqual(bindingMessageOf(length)({ amount: "70.00", currency: "EUR", payee }), expected)
  })
})
