/**
 * The line of progress fits into every terminal, never runs backwards, and leaves nothing behind. The terminals are streams that
 * record what is written to them; test/system/cli/Progress.test.ts has a real one.
 */
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { vi } from "vitest"
import { type ProgressNow, renderProgress, startProgress } from "../../../../src/cli/screen/ProgressBar.ts"

const anyText = fc.string({ minLength: 1, maxLength: 40 })

const anyProgress: fc.Arbitrary<ProgressNow> = fc.record({
  label: anyText,
  unit: anyText,
  total: fc.option(fc.nat(10_000_000)),
  done: fc.nat(20_000_000),
  seconds: fc.double({ min: 0, max: 1e6, noNaN: true }),
  step: fc.option(anyText)
})

const filledOf = (line: string) => /\[(#*)-*\]/.exec(line)![1]!.length
const percentOf = (line: string) => Number(/(\d+) %/.exec(line)![1])

describe("A line of progress", () => {
  it("is never wider than the terminal, and has no line break", () => {
    fc.assert(fc.property(anyProgress, fc.nat(250), (now, columns) => {
      const line = renderProgress(now, columns)
      assert.isAtMost(line.length, columns)
      assert.notMatch(line, /[\r\n]/)
    }))
  })

  it("never runs backwards while the work advances", () => {
    fc.assert(fc.property(anyProgress, fc.nat(1000), fc.nat(1000), (now, total, more) => {
      const [before, after] = [now.done, now.done + more].map((done) =>
        renderProgress({ ...now, done, total: total + 1 }, 500)
      )
      assert.isAtLeast(filledOf(after!), filledOf(before!))
      assert.isAtLeast(percentOf(after!), percentOf(before!))
    }))
  })

  it("is full when all is done, and not before", () => {
    fc.assert(fc.property(anyProgress, fc.integer({ min: 1, max: 1e9 }), fc.nat(1e9), (now, total, missing) => {
      const done = Math.max(0, total - missing)
      const line = renderProgress({ ...now, done, total }, 500)
      assert.strictEqual(filledOf(line) === 20, done === total)
      assert.strictEqual(percentOf(line) === 100, done === total)
    }))
  })
})

/** A stream that records. */
const makeStream = (isTTY: boolean) => {
  const written: Array<string> = []
  return { isTTY, columns: 80, written, write: (text: string) => void written.push(text) }
}

const erase = "\r\u001B[K"

const work = { label: "Working", unit: "steps", total: 100 }

describe("Progress", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it("of work that ends within a second shows nothing", () => {
    for (const isTTY of [true, false]) {
      const stream = makeStream(isTTY)
      const progress = startProgress(work, stream, {})
      for (let done = 1; done <= 9; done++) {
        vi.advanceTimersByTime(100)
        progress.update(done)
      }
      progress.end()
      assert.deepStrictEqual(stream.written, [])
    }
  })

  it("redraws one line of a terminal while nothing is reported, and erases it at the end", () => {
    const stream = makeStream(true)
    const progress = startProgress(work, stream, {})
    progress.update(10)
    vi.advanceTimersByTime(2000)
    assert.lengthOf(stream.written, 11)
    for (const text of stream.written) {
      assert.isTrue(text.startsWith(`${erase}Working  `) && text.endsWith("\r"))
      assert.notInclude(text, "\n")
    }
    progress.end()
    assert.strictEqual(stream.written.at(-1), erase)
    vi.advanceTimersByTime(10_000)
    assert.lengthOf(stream.written, 12)
  })

  it.each([
    ["a file or a pipe", false, {}],
    ["a terminal without a cursor", true, { TERM: "dumb" }],
    ["continuous integration", true, { CI: "true" }]
  ])("on %s is a plain line every ten seconds", (_, isTTY, environment) => {
    const stream = makeStream(isTTY)
    const progress = startProgress(work, stream, environment)
    progress.update(10)
    vi.advanceTimersByTime(35_000)
    progress.end()
    assert.lengthOf(stream.written, 3)
    for (const line of stream.written) assert.match(line, /^Working {2}[ -~]*\n$/)
  })
})
