/** A transaction that hangs is reported once, so that operators see what the feed steps over. */
import { assert, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import { makeLongTransactions } from "../../../../src/server/waits/ChangeWatcher.ts"

it.effect("A transaction that stays unfinished for a minute is reported once, and one that ends is not", () => {
  const lines: Array<string> = []
  const logger = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
  return Effect.gen(function*() {
    const report = makeLongTransactions()
    yield* report(7)
    yield* TestClock.adjust("59 seconds")
    yield* report(7)
    yield* report(null)
    yield* report(8)
    yield* TestClock.adjust("59 seconds")
    yield* report(8)
    assert.deepStrictEqual(lines, [])
    yield* TestClock.adjust("1 second")
    yield* report(8)
    yield* TestClock.adjust("1 hour")
    yield* report(8)
    assert.lengthOf(lines, 1)
    assert.include(lines[0], "open for more than a minute")
    yield* report(9)
    yield* TestClock.adjust("1 minute")
    yield* report(9)
    assert.lengthOf(lines, 2)
  }).pipe(Effect.provide(logger))
})
