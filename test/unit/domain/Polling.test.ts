/**
 * The suggested wait before the next read grows with the age of a state, within its bounds. The tests check it by
 * property.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { pollAfterSeconds } from "../../../src/domain/Operation.ts"

const at = (epochMilliseconds: number) => DateTime.makeUnsafe(epochMilliseconds)
const epoch = Date.UTC(2026, 0, 1)

const wait = (ageMilliseconds: number) =>
  pollAfterSeconds({ terminal: false, updated_at: at(epoch) }, at(epoch + ageMilliseconds))

/** Ages from minus a day (the clock is behind) to a year. */
const Age = Schema.Int.check(Schema.isBetween({ minimum: -86_400_000, maximum: 31_536_000_000 }))

describe("the wait before an operation is read again", () => {
  it.effect.prop("is a whole number of seconds between 1 and 300", [Age], ([age]) =>
    Effect.sync(() => {
      const seconds = wait(age)!
      assert.isTrue(Number.isInteger(seconds) && seconds >= 1 && seconds <= 300, String(seconds))
    }), { arbitrary: { runs: 100 } })

  it.effect.prop("never shrinks while the state grows older", [Age, Age], ([a, b]) =>
    Effect.sync(() => {
      assert.isAtMost(wait(Math.min(a, b))!, wait(Math.max(a, b))!)
    }), { arbitrary: { runs: 100 } })

  it("is 1 second for a fresh state, grows with its age, and ends at 5 minutes", () => {
    assert.deepStrictEqual([0, 10_000, 10_001, 60_000, 3_000_000, 3_000_001, 86_400_000].map(wait), [
      1,
      1,
      2,
      6,
      300,
      300,
      300
    ])
  })

  it.effect.prop("is null once the operation is terminal, at any age", [Age], ([age]) =>
    Effect.sync(() => {
      assert.isNull(pollAfterSeconds({ terminal: true, updated_at: at(epoch) }, at(epoch + age)))
    }))
})
