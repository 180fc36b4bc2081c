/** The comparison by faults: its corpus, and the rules of its judge. */
import { assert, describe, it } from "@effect/vitest"
import { drawCorpus, faultTitles, keysOf } from "../../../bench/faults/corpus.ts"
import { verdictOf } from "../../../bench/faults/judge.ts"

describe("the corpus of npm run compare:faults", () => {
  const scenes = drawCorpus("1", false)

  it("has at least 300 payments with a fault at the bank that keeps keys for ever, and at the one without", () => {
    for (const keys of ["forever", "none"] as const) {
      const struck = scenes.filter(({ name }) => keysOf(name).includes(keys)).flatMap(({ payments }) => payments)
      assert.isAtLeast(struck.length, 300)
      assert.strictEqual(new Set(struck.map(({ id }) => id)).size, struck.length)
      for (const { fault } of struck) assert.property(faultTitles, fault)
    }
  })

  it("is the same for the same seed, and another for another", () => {
    assert.deepStrictEqual(drawCorpus("1", false), scenes)
    assert.notDeepEqual(drawCorpus("2", false), scenes)
  })

  it("has 20 faults in its short form", () => {
    assert.strictEqual(drawCorpus("1", true).flatMap(({ payments }) => payments).length, 20)
  })
})

describe("the judge of npm run compare:faults", () => {
  it("goes by the bank's record first, and then by what the contestant tells", () => {
    assert.strictEqual(verdictOf(2, "paid"), "paid_twice")
    assert.strictEqual(verdictOf(2, "person"), "paid_twice")
    assert.strictEqual(verdictOf(0, "paid"), "told_paid")
    assert.strictEqual(verdictOf(1, "failed"), "told_failed")
    assert.strictEqual(verdictOf(1, "nothing"), "lost")
    assert.strictEqual(verdictOf(0, "nothing"), "lost")
    assert.strictEqual(verdictOf(1, "person"), "person")
    assert.strictEqual(verdictOf(0, "open"), "open")
    assert.strictEqual(verdictOf(1, "paid"), "right")
    assert.strictEqual(verdictOf(0, "failed"), "right")
  })
})
