import { assert, describe, it } from "@effect/vitest"
import {
  formatDuration,
  formatInstant,
  formatName,
  formatOperations,
  formatRelative,
  formatUsed
} from "../../../console/data/format.ts"

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

describe("Texts of the console", () => {
  it.each([
    [0, "0 s"],
    [999, "0 s"],
    [45 * second, "45 s"],
    [3 * minute + 59 * second, "3 min"],
    [3 * hour + 12 * minute, "3 h 12 min"],
    [3 * hour, "3 h"],
    [11 * hour + 40 * minute, "11 h"],
    [day + 4 * hour, "1 d 4 h"],
    [40 * day, "40 d"]
  ])("shows %s ms as %s", (milliseconds, expected) => {
    assert.strictEqual(formatDuration(milliseconds), expected)
  })

  it.each([
    ["500.00", "70.00", "430.00", 86],
    ["500", "500.00", "0.00", 0],
    ["1000000000000000.01", "0.00", "1000000000000000.01", 100],
    ["3", "1", "2", 66.6],
    ["0.01", "0.00", "0.01", 100]
  ])("shows of %s with %s left what is used, exactly", (amount, remaining, used, percent) => {
    assert.deepStrictEqual(formatUsed(amount, remaining), { used, percent })
  })

  it("tells how far an instant is from now, in both directions", () => {
    assert.strictEqual(formatRelative(0, 5 * minute), "5 min ago")
    assert.strictEqual(formatRelative(5 * second, 0), "in 5 s")
    assert.strictEqual(formatRelative(5, 0), "now")
  })

  it("shows an instant in UTC to the second", () => {
    assert.strictEqual(formatInstant("2026-11-22T18:05:09.123Z"), "2026-11-22 18:05:09 UTC")
  })

  it("makes words of names and numbers", () => {
    assert.strictEqual(formatName("under_review"), "Under review")
    assert.strictEqual(formatOperations(1), "1 operation")
    assert.strictEqual(formatOperations(1234), "1,234 operations")
  })
})
