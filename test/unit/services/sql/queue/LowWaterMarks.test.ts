/**
 * Low-water marks: searches begin at marks only after a long walk, and from the start again within the longest pause.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { makeLowWaterMarks, MarkPolicy, type Marks } from "../../../../../src/services/sql/queue/lowWaterMarks.ts"

const { longestPause, longWalk } = MarkPolicy.defaultValue()

/** A search that walks this many entries from the start and ten from marks, and reports marks. It records where it began. */
const makeSearch = (walkedFromStart: () => number) => {
  const began: Array<Marks | null> = []
  const search = (marks: Marks | null) =>
    Effect.sync(() => {
      began.push(marks === null ? null : new Map(marks))
      const fromStart = marks === null || marks.size === 0
      return {
        walked: fromStart ? walkedFromStart() : 10,
        marks: marks === null ? [] : [["queue", `${began.length}`] as const]
      }
    })
  return { began, search }
}

const queue = (mark: number): Marks => new Map([["queue", String(mark)]])

describe("Low-water marks", () => {
  it.effect("are not used while searches from the start are short", () =>
    Effect.gen(function*() {
      const { began, search } = makeSearch(() => longWalk - 1)
      const find = yield* makeLowWaterMarks
      for (let n = 0; n < 3; n++) yield* find("bank", search)
      assert.deepStrictEqual(began, [null, null, null])
    }))

  it.effect("after a long walk, one search makes marks, and the next ones begin there and move them", () =>
    Effect.gen(function*() {
      const { began, search } = makeSearch(() => longWalk)
      const find = yield* makeLowWaterMarks
      for (let n = 0; n < 4; n++) yield* find("bank", search)
      assert.deepStrictEqual(began, [null, new Map(), queue(2), queue(3)])
    }))

  it.effect("hide nothing for longer than the longest pause, however long the walk is", () =>
    Effect.gen(function*() {
      const { began, search } = makeSearch(() => 1e9)
      const find = yield* makeLowWaterMarks
      yield* find("bank", search)
      yield* find("bank", search)
      yield* TestClock.adjust(longestPause - 1)
      yield* find("bank", search)
      yield* TestClock.adjust(1)
      yield* find("bank", search)
      assert.deepStrictEqual(began, [null, new Map(), queue(2), new Map()])
    }))

  it.effect("are forgotten once a search from the start is short again", () =>
    Effect.gen(function*() {
      let walked = longWalk
      const { began, search } = makeSearch(() => walked)
      const find = yield* makeLowWaterMarks
      yield* find("bank", search)
      yield* find("bank", search)
      walked = 1
      yield* TestClock.adjust(longestPause)
      yield* find("bank", search)
      yield* find("bank", search)
      assert.deepStrictEqual(began, [null, new Map(), new Map(), null])
    }))

  it.effect("of one key are not those of another", () =>
    Effect.gen(function*() {
      const [bank, other] = [makeSearch(() => longWalk), makeSearch(() => 1)]
      const find = yield* makeLowWaterMarks
      for (let n = 0; n < 3; n++) {
        yield* find("bank", bank.search)
        yield* find("other", other.search)
      }
      assert.deepStrictEqual(bank.began, [null, new Map(), queue(2)])
      assert.deepStrictEqual(other.began, [null, null, null])
    }))

  it.effect("that a search brings back after a search from the start began are not used", () =>
    Effect.gen(function*() {
      const { began, search } = makeSearch(() => longWalk)
      const find = yield* makeLowWaterMarks
      yield* find("bank", search)
      yield* find("bank", search)
      // A slow search from marks: meanwhile, another one begins at the start.
      yield* find("bank", (marks) =>
        Effect.gen(function*() {
          const slow = yield* search(marks)
          yield* TestClock.adjust(longestPause)
          yield* find("bank", search)
          return { ...slow, marks: [["queue", "stale"] as const] }
        }))
      yield* find("bank", search)
      assert.deepStrictEqual(began, [null, new Map(), queue(2), new Map(), queue(4)])
    }))
})
