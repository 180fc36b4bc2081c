import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { anchorOf, countStep, scalesOf, sinceOf, timesOf } from "../../../console/charts/scales.ts"
import { gridOf } from "../../../console/charts/series.ts"

const hour = 3_600_000

describe("The scales of a plot", () => {
  it("step by 1, 2 or 5 times a power of ten, as little as reaches the maximum", () => {
    assert.deepStrictEqual([1, 3, 4, 7, 59, 61, 340].map((max) => countStep(max, 3)), [1, 1, 2, 5, 20, 50, 200])
    fc.assert(fc.property(fc.integer({ min: 1, max: 10_000_000 }), (max) => {
      const step = countStep(max, 3)
      assert.isTrue(Number.isInteger(step) && step * 3 >= max)
    }))
  })

  it("have at most as many round times as fit, all of them within the range", () => {
    fc.assert(fc.property(
      fc.integer({ min: 0, max: 2_000_000_000_000 }),
      fc.constantFrom(1, 3, 24, 168),
      fc.integer({ min: 2, max: 12 }),
      (first, hours, count) => {
        const last = first + hours * hour
        const times = timesOf(first, last, count)
        assert.isTrue(times.length >= 1 && times.length <= count + 1)
        assert.isTrue(times.every((time) => time >= first && time <= last && time % 300_000 === 0))
      }
    ))
  })

  it("keep the last label within the plot, and tell where a young ledger begins", () => {
    const grid = gridOf(Date.parse("2026-11-22T12:00:20.000Z"), 3, [{ at: "2026-11-22T11:55:00.000Z" }])
    const scales = scalesOf(grid, 5, 400, 190)
    assert.strictEqual(anchorOf(scales.end, scales), "end")
    assert.strictEqual(anchorOf(scales.end / 2, scales), "middle")
    assert.strictEqual(sinceOf(grid, 3), ", since 11:41")
    assert.strictEqual(
      sinceOf(gridOf(Date.parse("2026-11-22T12:00:20.000Z"), 3, [{ at: "2026-01-01T00:00:00.000Z" }]), 3),
      ""
    )
    assert.isBelow(scales.x(grid.times.at(-1)!), scales.end, "the interval that has begun has a width")
  })

  it("put every value within the plot, and find the interval at a pixel", () => {
    const grid = gridOf(Date.parse("2026-11-22T12:00:20.000Z"), 3, [{ at: "2026-01-01T00:00:00.000Z" }])
    fc.assert(fc.property(fc.nat(100_000), fc.integer({ min: 200, max: 1200 }), fc.nat(179), (max, width, index) => {
      const { indexAt, rows, x, y } = scalesOf(grid, max, width, 190)
      assert.isTrue(y(max) >= 7.99 && y(0) <= 168.01)
      assert.isTrue(rows[0] === 0 && rows.at(-1)! >= max)
      assert.strictEqual(indexAt(x(grid.times[index]!)), index)
      assert.strictEqual(indexAt(-1000), 0)
      assert.strictEqual(indexAt(5000), 179)
    }))
  })
})
