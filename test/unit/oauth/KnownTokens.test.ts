/**
 * The gateway remembers which tokens it verified lately, within bounds of time and number. The tests move the clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { makeKnownTokens } from "../../../src/oauth/Introspection.ts"

const minute = 60_000

const made = (expiresAt = Infinity) => ({ token: Redacted.make("t"), expiresAt })

describe("The recently verified tokens", () => {
  it("are remembered for half an hour at least and an hour at most after their last use", () => {
    const known = makeKnownTokens()
    for (const name of ["used", "unused"]) known.remember(name, made(), 0)
    known.remember("used", made(), 29 * minute)
    known.remember("used", made(), 30 * minute)
    assert.isTrue(known.has("used"))
    assert.isTrue(known.has("unused"))
    known.remember("used", made(), 60 * minute)
    assert.isTrue(known.has("used"))
    assert.isFalse(known.has("unused"))
  })

  it("are at most 20,000, and always include the last 10,000", () => {
    const known = makeKnownTokens()
    for (let index = 0; index < 30_001; index++) known.remember(`${index}`, made(), 0)
    const names = Array.from({ length: 30_001 }, (_, index) => `${index}`)
    assert.isAtMost(names.filter(known.has).length, 20_000)
    assert.isTrue(names.slice(-10_000).every(known.has))
  })

  it("are forgotten when they are no longer active", () => {
    const known = makeKnownTokens()
    known.remember("a", made(), 0)
    known.forget("a")
    assert.isFalse(known.has("a"))
    assert.isNull(known.latest(0))
    known.remember("a", made(), 0)
    known.remember("b", made(), 30 * minute)
    known.forget("a")
    assert.isFalse(known.has("a"))
    assert.strictEqual(known.latest(30 * minute)?.digest, "b")
  })

  it("provide the last token for probes until it expires, and never log its text", () => {
    const known = makeKnownTokens()
    assert.isNull(known.latest(0))
    known.remember("a", made(minute), 0)
    known.remember("b", made(2 * minute), 0)
    assert.strictEqual(known.latest(2 * minute - 1)?.digest, "b")
    assert.isNull(known.latest(2 * minute))
    assert.notInclude(`${JSON.stringify(known.latest(0))} ${String(known.latest(0)?.token)}`, `"t"`)
  })
})
