/**
 * Timestamps on the wire are RFC 3339 in UTC with milliseconds. The tests check this by property for every instant of a
 * Date.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Equal } from "effect"
import * as fc from "fast-check"
import { formatTimestamp, isInstant, makeInstant } from "../../../src/domain/Timestamp.ts"

describe("An instant on the wire", () => {
  it("is written as RFC 3339 in UTC with milliseconds, for every instant that a Date can hold", () => {
    fc.assert(
      fc.property(fc.integer({ min: -8.64e15, max: 8.64e15 }), (millis) => {
        assert.strictEqual(formatTimestamp(millis), new Date(millis).toISOString())
      }),
      { numRuns: 2000 }
    )
    for (const millis of [0, -1, 1, 86_399_999, 86_400_000, -86_400_000, 8.64e15, -8.64e15, 253_402_300_800_000]) {
      assert.strictEqual(formatTimestamp(millis), new Date(millis).toISOString())
    }
  })

  it("is the one of Effect if it is made from milliseconds, or there is none", () => {
    const millis = fc.oneof(
      fc.double({ min: -8.64e15, max: 8.64e15 }),
      fc.constantFrom(8.64e15, -8.64e15, 8.64e15 + 2, Infinity, -Infinity, Number.NaN)
    )
    fc.assert(
      fc.property(millis, (millis) => {
        if (Number.isNaN(new Date(millis).getTime())) {
          assert.throws(() => makeInstant(millis))
          return
        }
        const [made, expected] = [makeInstant(millis), DateTime.makeUnsafe(millis)]
        assert.isTrue(DateTime.isDateTime(made) && DateTime.isUtc(made) && Equal.equals(made, expected))
        assert.deepStrictEqual(made, expected)
        assert.deepStrictEqual(DateTime.toPartsUtc(made), DateTime.toPartsUtc(expected))
        assert.strictEqual(JSON.stringify([made, String(made)]), JSON.stringify([expected, String(expected)]))
      })
    )
  })

  it("is an existing RFC 3339 date-time with an offset", () => {
    for (const text of ["2026-01-31T12:00:00Z", "2024-02-29T23:59:59.123456789+05:30"]) assert.isTrue(isInstant(text))
    const others = [
      "2026-02-30T12:00:00Z",
      "2026-01-31",
      "2026-01-31T12:00:00",
      "2026-01-31T24:00:00Z",
      "2026-01-31t12:00:00z"
    ]
    for (const text of others) assert.isFalse(isInstant(text), text)
  })
})
