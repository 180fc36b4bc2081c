/**
 * Delays of status reads, provider references and submission errors keep to their bounds. The tests check delays by
 * property.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Schema } from "effect"
import { isProviderReference, readDelay, type ReadSchedule } from "../../../src/domain/Submission.ts"
import { defaultPolicy } from "../../../src/submission/SubmissionPolicy.ts"

const between = (minimum: number, maximum: number) => Schema.Finite.check(Schema.isBetween({ minimum, maximum }))

const Reads = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 }))
const Schedule = Schema.Struct({
  first: between(1, 60_000),
  factor: between(1, 10),
  longest: between(60_000, 86_400_000),
  jitter: between(0, 1)
})
const Chance = between(0, 1)

const scheduleOf = ({ factor, first, jitter, longest }: typeof Schedule.Type): ReadSchedule => ({
  first: Duration.millis(first),
  factor,
  longest: Duration.millis(longest),
  jitter
})

describe("the delay before the next status read", () => {
  it.effect.prop(
    "is a whole number of milliseconds, between the first delay and the longest, plus or minus the jitter",
    [Schedule, Reads, Chance],
    ([given, reads, random]) =>
      Effect.sync(() => {
        const delay = readDelay(scheduleOf(given), reads, random)
        assert.isTrue(Number.isInteger(delay))
        assert.isAtLeast(delay, Math.round(given.first * (1 - given.jitter)) - 1)
        assert.isAtMost(delay, Math.round(given.longest * (1 + given.jitter)) + 1)
        assert.isAtLeast(delay, 0)
      }),
    { arbitrary: { runs: 100 } }
  )

  it.effect.prop(
    "never shrinks as reads go on",
    [Schedule, Reads, Reads, Chance],
    ([given, a, b, random]) =>
      Effect.sync(() => {
        const delay = (reads: number) => readDelay(scheduleOf(given), reads, random)
        assert.isAtMost(delay(Math.min(a, b)), delay(Math.max(a, b)))
      }),
    { arbitrary: { runs: 100 } }
  )

  it.effect.prop(
    "varies by at most the jitter, in proportion to the random number",
    [Schedule, Reads, Chance, Chance],
    ([given, reads, a, b]) =>
      Effect.sync(() => {
        const delay = (random: number) => readDelay(scheduleOf(given), reads, random)
        const [shortest, middle, longest] = [delay(0), delay(0.5), delay(1)]
        assert.closeTo(shortest, middle * (1 - given.jitter), 2)
        assert.closeTo(longest, middle * (1 + given.jitter), 2)
        assert.isAtMost(delay(Math.min(a, b)), delay(Math.max(a, b)))
      }),
    { arbitrary: { runs: 100 } }
  )

  it("starts with the first delay, grows by the factor, and stays at the longest delay", () => {
    const delays = (reads: ReadonlyArray<number>) => reads.map((n) => readDelay(defaultPolicy.readSchedule, n, 0.5))
    assert.deepStrictEqual(delays([0, 1, 2, 3]), [1000, 1600, 2560, 4096])
    assert.deepStrictEqual(delays([18, 100, 2 ** 31 - 1]), [3_600_000, 3_600_000, 3_600_000])
  })

  it("is the longest delay when the first is longer still, or when growth overflows", () => {
    const schedule = { first: Duration.hours(2), factor: 1e10, longest: Duration.hours(1), jitter: 0 }
    for (const reads of [0, 1, 40, 100_000]) assert.strictEqual(readDelay(schedule, reads, 0.5), 3_600_000)
  })
})

describe("the reference of a provider", () => {
  it("is text of 1 to 1024 characters that PostgreSQL can keep", () => {
    for (const text of ["a", "ünï 😀", " ", "x".repeat(1024)]) assert.isTrue(isProviderReference(text), text)
    for (const text of ["", "x".repeat(1025), "a\0b", "\ud800", null, 1]) {
      assert.isFalse(isProviderReference(text), String(text))
    }
  })
})
