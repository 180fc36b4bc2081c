/** On a terminal, an entry of the log is one line that a person can read, and no text in it can drive the terminal. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Logger, Redacted } from "effect"
import { stripVTControlCharacters } from "node:util"
import { terminalLine } from "../../../../src/node/process/Observability.ts"

/** The lines of the effect, without styles and times. */
const logged = (effect: Effect.Effect<void>) =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const kept = Logger.map(terminalLine, (text) => void lines.push(stripVTControlCharacters(text)))
    yield* Effect.provide(effect, Logger.layer([kept]))
    return lines.map((line) => {
      assert.match(line, /^\d\d:\d\d:\d\d\.\d{3} /)
      return line.slice(13)
    })
  })

describe("A line of the log on a terminal", () => {
  it.effect("has level, message and annotations, with quotes where a value cannot stand alone", () =>
    Effect.gen(function*() {
      const annotations = { provider: "demo-bank", reason: "it is late", codes: ["a", "b"], count: 2, none: null }
      assert.deepStrictEqual(yield* logged(Effect.annotateLogs(Effect.logWarning("Operation failed"), annotations)), [
        "WARN  Operation failed provider=demo-bank reason=\"it is late\" codes=[\"a\",\"b\"] count=2 none=null"
      ])
      assert.deepStrictEqual(yield* logged(Effect.log("one", 2)), ["INFO  one 2"])
    }))

  it.effect("has the durations of its spans", () =>
    Effect.gen(function*() {
      assert.match((yield* logged(Effect.withLogSpan(Effect.log("Read"), "read")))[0]!, /^INFO {2}Read read=\d+ms$/)
    }))

  it.effect("shows escapes, line ends and other directions of text, and does not obey them", () =>
    Effect.gen(function*() {
      const text = "a\u001b[2Jb\nc\u202ed"
      const [line] = yield* logged(Effect.annotateLogs(Effect.log(text), { text: "\u202ee" }))
      assert.strictEqual(line, "INFO  a\\u{1b}[2Jb\\u{a}c\\u{202e}d text=\\u{202e}e")
    }))

  it.effect("has its cause below it", () =>
    Effect.gen(function*() {
      const [entry] = yield* logged(Effect.logError("Poll failed", Cause.die(new Error("no\u001b[2J"))))
      const [first, cause, ...stack] = entry!.split("\n")
      assert.strictEqual(first, "ERROR Poll failed")
      assert.strictEqual(cause, "Error: no\\u{1b}[2J")
      assert.isNotEmpty(stack)
    }))

  it.effect("has no secret", () =>
    Effect.gen(function*() {
      const secret = Redacted.make("secret-of-the-test")
      const [line] = yield* logged(Effect.annotateLogs(Effect.log("Read", secret), { secret, in: { secret } }))
      assert.notInclude(line, "secret-of-the-test")
    }))
})
