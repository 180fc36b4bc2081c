/** A comparison of clocks proves no more than is true, however slow the answer was. The property tries any difference and any delay. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { compareClocks, longestSkew, whySkewed } from "../../../src/domain/ClockSkew.ts"

const delay = fc.integer({ min: 0, max: 60_000 })

describe("A comparison of clocks", () => {
  it("bounds the true difference from both sides, and is as uncertain as the answer was slow", () => {
    const skews = fc.oneof(fc.integer({ min: -10_000, max: 10_000 }), fc.integer({ min: -1e8, max: 1e8 }))
    fc.assert(fc.property(skews, delay, delay, delay, (skew, there, between, back) => {
      const { most, proven } = compareClocks(skew, there, there + between, there + between + back + skew)
      assert.isAtMost(Math.abs(proven), Math.abs(skew))
      assert.isAtLeast(most, Math.abs(skew))
      assert.isAtMost(most - Math.abs(proven), there + back)
      assert.isTrue(proven === 0 || Math.sign(proven) === Math.sign(skew))
    }))
  })

  it("lets a worker send only if the difference is proven to be five seconds at most", () => {
    assert.isNull(whySkewed({ proven: longestSkew, most: longestSkew }))
    assert.isNull(whySkewed({ proven: 0, most: longestSkew }))
    assert.isNotNull(whySkewed({ proven: longestSkew, most: longestSkew + 1 }))
    assert.isNotNull(whySkewed({ proven: -longestSkew - 1, most: longestSkew + 1 }))
  })

  it("proves nothing if the clock was set meanwhile, and does not let a worker send", () => {
    const skew = compareClocks(3_600_000, 3_600_001, 3_600_001, 2)
    assert.strictEqual(skew.proven, -1)
    assert.isNotNull(whySkewed(skew))
  })
})
