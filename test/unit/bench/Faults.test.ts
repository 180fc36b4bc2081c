/** The comparison by faults: its corpus, and the rules of its judge. */
import { assert, describe, it } from "@effect/vitest"
import { contestants } from "../../../bench/faults/contestants/manifest.ts"
import { drawCorpus, faultTitles, keysOf } from "../../../bench/faults/corpus.ts"
import { type Judged, type Verdict, verdictOf } from "../../../bench/faults/judge.ts"
import { differences, type FaultsReport, rowOf } from "../../../bench/faults/report.ts"

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

describe("--against of npm run compare:faults", () => {
  const entry = { contestant: contestants[0]!, variant: "default", keys: "none" } as const
  const played = (...verdicts: ReadonlyArray<Verdict>) => {
    const judged = verdicts.map((verdict, n): Judged => (
      { id: `answers-${n + 1}`, fault: "answers", verdict, bookings: 1, told: "paid", reason: "", answeredAfter: null }
    ))
    return { errors: [], judged, timelines: new Map() }
  }
  const recorded = { rows: [rowOf(entry, played("right", "person", "person"), null)] } as unknown as FaultsReport

  it("lists each payment whose verdict differs from the recorded one, and no other", () => {
    assert.deepStrictEqual(differences(entry, played("right", "person", "person"), recorded), [])
    const lines = differences(entry, played("person", "person", "right"), recorded)
    assert.deepStrictEqual(lines.map((line) => line.split(":")[0]), [
      "gateway default none answers-1",
      "gateway default none answers-3"
    ])
    assert.deepStrictEqual(differences({ ...entry, keys: "forever" }, played("right"), recorded), [
      "gateway default forever: not recorded"
    ])
  })
})
