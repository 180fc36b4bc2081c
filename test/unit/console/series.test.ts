/** The flow leaves out intervals without a change. The plots show them all the same. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { enteredIn, gridOf, sampled, stacked, standingIn } from "../../../console/charts/series.ts"
import type { Overview } from "../../../src/operator/console/ConsoleApi.ts"

type Point = Overview["flow"][number]

const minute = 60_000
const at = Date.parse("2026-11-22T12:00:20.000Z")
const old = [{ at: "2026-01-01T00:00:00.000Z" }]
const grid = gridOf(at, 1, old)

/** A point some minutes before the last interval. */
const point = (minutesAgo: number, provider: string, entered: number, standing: number): Point => ({
  at: new Date(grid.times.at(-1)! - minutesAgo * minute).toISOString(),
  provider,
  entered: { accepted: entered },
  standing: { accepted: standing }
})

describe("The series of a plot", () => {
  it.each([["1", 60, minute], ["3", 180, minute], ["24", 24, 60 * minute], ["168", 168, 60 * minute]] as const)(
    "have one value for each interval of the last %s hours, up to the current one",
    (hours, count, interval) => {
      const { interval: found, times } = gridOf(at, Number(hours), old)
      assert.lengthOf(times, count)
      assert.strictEqual(found, interval)
      assert.strictEqual(times.at(-1), Math.floor(at / interval) * interval)
    }
  )

  it("begin one interval before the earliest point of a young ledger, and have 20 intervals at least", () => {
    const minutesAgo = (minutes: number) => [{ at: new Date(at - minutes * minute).toISOString() }]
    assert.deepStrictEqual([0, 5, 40, 500].map((ago) => gridOf(at, 3, minutesAgo(ago)).times.length), [20, 20, 42, 180])
    assert.lengthOf(gridOf(at, 3, []).times, 20)
  })

  it("keep the number of a provider until its next point, and add the providers", () => {
    const flow = [point(59, "bank", 0, 5), point(59, "card", 0, 1), point(30, "bank", 0, 8), point(10, "card", 0, 0)]
    const values = standingIn(flow, grid, "accepted")
    assert.deepStrictEqual([values[0], values[28], values[29], values[48], values[49], values[59]], [6, 6, 9, 9, 8, 8])
  })

  it("begin with a point from before the range", () => {
    assert.deepStrictEqual(new Set(standingIn([point(90, "bank", 0, 3)], grid, "accepted")), new Set([3]))
  })

  it("count what entered a state only in its interval", () => {
    const values = enteredIn([point(2, "bank", 4, 0), point(2, "card", 3, 0), point(90, "bank", 9, 0)], grid, [
      "accepted"
    ])
    assert.deepStrictEqual(values.slice(-4), [0, 7, 0, 0])
    assert.strictEqual(values.reduce((sum, value) => sum + value, 0), 7)
  })

  it("lie on top of each other without gaps: the last edge is their sum", () => {
    const values = fc.array(fc.nat(1000), { minLength: 3, maxLength: 3 })
    fc.assert(fc.property(fc.array(values, { minLength: 1, maxLength: 5 }), (all) => {
      const edges = stacked(all.map((values, index) => ({ name: String(index), label: "", values })))
      assert.lengthOf(edges, all.length + 1)
      assert.deepStrictEqual(edges.at(-1), [0, 1, 2].map((at) => all.reduce((sum, values) => sum + values[at]!, 0)))
    }))
  })

  it.each([1, 3, 24, 168])("have a table of 7 to 18 rows for %s hours, with the current interval", (hours) => {
    const rows = sampled(gridOf(at, hours, old))
    assert.isTrue(rows.length >= 7 && rows.length <= 18, String(rows.length))
    assert.strictEqual(rows.at(-1), gridOf(at, hours, old).times.length - 1)
  })
})
