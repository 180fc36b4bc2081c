/** The pauses between reads keep to their limits. Properties hold the rules of `ReadRules`. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  firstPace,
  nextPace,
  pauseAfter,
  pauseOfPoll,
  restOfWait,
  retryAfterSeconds
} from "../../../src/client/ReadRules.ts"

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const failures = fc.nat(2000)

/** A failure that may be repeated. */
const failure = (retryAfter: number | null = null) => ({ retryable: true, retryAfter })

describe("A pause between reads", () => {
  it("after a failure is at least Retry-After, and at most 30 seconds longer", () => {
    fc.assert(fc.property(failures, fc.option(fc.nat(999_999)), random, (count, advised, at) => {
      const pause = pauseAfter(failure(advised), count, Infinity, at)
      assert.isNotNull(pause)
      assert.isAtLeast(pause, advised ?? 0)
      assert.isAtMost(pause, (advised ?? 0) + 30)
    }))
  })

  it("after a failure is random over the whole range, which doubles from 1 to 30 seconds", () => {
    fc.assert(fc.property(failures, (count) => {
      const limit = Math.min(30, 2 ** Math.min(count, 5))
      assert.strictEqual(pauseAfter(failure(), count, Infinity, 0), 0)
      assert.strictEqual(pauseAfter(failure(), count, Infinity, 1), limit)
    }))
  })

  it("ends when the time is over: the last attempt uses it up, but comes no earlier than Retry-After", () => {
    fc.assert(fc.property(failures, fc.nat(60), fc.nat(60), random, (count, advised, left, at) => {
      const pause = pauseAfter(failure(advised), count, left, at)
      if (left === 0 || advised > left) assert.isNull(pause)
      else assert.strictEqual(pause, Math.min(left, pauseAfter(failure(advised), count, Infinity, at)!))
    }))
  })

  it("follows only a failure that says that it may be repeated", () => {
    const others = [null, undefined, "retryable", new Error("failed"), { retryable: false }, { retryable: "true" }]
    for (const other of others) assert.isNull(pauseAfter(other, 0, Infinity, 0))
  })

  it("between polls is at least as advised, and at most a quarter longer", () => {
    fc.assert(fc.property(fc.nat(1000), random, (advised, at) => {
      assert.isAtLeast(pauseOfPoll(advised, at), advised)
      assert.isAtMost(pauseOfPoll(advised, at), advised * 1.25)
    }))
  })

  it("is never left out after an answer without news that came at once", () => {
    const result = fc.record({
      isNew: fc.boolean(),
      hasMore: fc.constant(false),
      applied: fc.boolean(),
      took: fc.double({ min: 0, max: 60, noNaN: true }),
      pollAfter: fc.constant(5)
    })
    fc.assert(fc.property(fc.array(result, { minLength: 1 }), fc.integer({ min: 0, max: 60 }), (results, wait) => {
      const { pause } = results.reduce(nextPace, firstPace(wait))
      const { applied, isNew, took } = results.at(-1)!
      if (!isNew) assert.strictEqual(pause, applied && took >= 1 ? 0 : 5)
    }))
  })

  it("of polls is at least a second, also after `Retry-After: 0`", () => {
    const result = { isNew: false, hasMore: false, applied: false, took: 0, pollAfter: 0 }
    assert.strictEqual(nextPace(firstPace(50), result).pause, 1)
  })

  it("takes Retry-After in seconds, and no other form", () => {
    assert.deepStrictEqual(["0", "1", "999999"].map(retryAfterSeconds), [0, 1, 999_999])
    const others = [null, undefined, "", "-1", "1.5", "1e3", "01", "1000000", "Wed, 21 Oct 2026 07:28:00 GMT"]
    assert.deepStrictEqual(others.map(retryAfterSeconds), others.map(() => null))
  })

  it("leaves a later attempt the rest of the wait, and at least a second", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.double({ min: 0, max: 1e6, noNaN: true }), (wait, passed) => {
        const rest = restOfWait(wait, passed)
        assert.strictEqual(rest, Math.max(1, Math.ceil(wait - passed)))
        assert.strictEqual(restOfWait(0, passed), 0)
      })
    )
  })
})
