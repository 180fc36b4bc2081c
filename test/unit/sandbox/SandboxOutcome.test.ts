/**
 * The sandbox derives outcomes and faults from seed and key, in the proportions of its settings. The tests check this
 * by property and by counting.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { type FaultSettings, strikesOn } from "../../../src/sandbox/Faults.ts"
import { defaultMix, knownAt, OutcomeMix, SandboxOutcome, settle } from "../../../src/sandbox/SandboxOutcome.ts"
import { read, start, submit, told } from "../../fixtures/sandbox/SandboxHarness.ts"

const key = fc.string({ minLength: 1, maxLength: 40 })

describe("SandboxOutcome", () => {
  it("depends only on seed, key, time of receipt and instruction, and survives the record", () => {
    const codec = Schema.fromJsonString(SandboxOutcome)
    fc.assert(fc.property(fc.string(), key, fc.integer({ min: 0, max: 4e12 }), (seed, key, effectiveAt) => {
      const made = settle(seed, defaultMix, { key, effectiveAt, instruction: undefined })
      assert.deepStrictEqual(settle(seed, defaultMix, { key, effectiveAt, instruction: undefined }), made)
      assert.deepStrictEqual(Schema.decodeSync(codec)(Schema.encodeSync(codec)(made)), made)
    }))
  })

  it("moves only from unknown to pending to a final status, which never changes", () => {
    const rank = (status: string | undefined) => ({ pending: 1, succeeded: 2, failed: 2 })[status ?? ""] ?? 0
    const instants = fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 2, maxLength: 20 })
    fc.assert(fc.property(fc.string(), key, instants, (seed, key, instants) => {
      const settlement = settle(seed, defaultMix, { key, effectiveAt: 5000, instruction: undefined })
      const seen = instants.sort((a, b) => a - b).map((now) => knownAt("key", settlement, null, now)?.status.status)
      assert.deepStrictEqual(seen.map(rank), seen.map(rank).sort((a, b) => a - b))
      assert.isAtMost(new Set(seen.filter((status) => rank(status) === 2)).size, 1)
    }))
  })

  it("yields each outcome as often as the mix specifies", () => {
    const mix = { ...defaultMix, succeeded_at_once: 0, succeeded_later: 1, failed_later: 2, rejected: 1 }
    const counts = { succeeded: 0, failed: 0, rejected: 0, pending: 0 }
    for (let n = 0; n < 4000; n++) {
      const settlement = settle("seed", mix, { key: `k${n}`, effectiveAt: 0, instruction: undefined })
      counts[settlement.outcome]++
      assert.isFalse(settlement.outcome === "succeeded" && settlement.settles_at === 0)
    }
    assert.approximately(counts.succeeded, 1000, 120)
    assert.approximately(counts.failed, 2000, 120)
    assert.approximately(counts.rejected, 1000, 120)
    assert.strictEqual(counts.pending, 0)
  })

  it("rejects a mix without any share, or with a shortest time above the longest", () => {
    const isMix = Schema.is(OutcomeMix)
    assert.isTrue(isMix(defaultMix))
    assert.isFalse(isMix({ ...defaultMix, succeeded_at_once: 0, succeeded_later: 0, failed_later: 0, rejected: 0 }))
    assert.isFalse(isMix({ ...defaultMix, shortest_ms: 2, longest_ms: 1 }))
  })
})

describe("The choice of faults", () => {
  const settings = (rate: number): FaultSettings => ({ drop_response: { rate }, lose: { rate } })
  const occasion = (key: string, attempt: number) =>
    ({ key, attempt, stage: "submission", instructed: undefined }) as const

  it("hits no key at rate 0, every key at rate 1, and more keys at a higher rate", () => {
    const rates = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }))
    fc.assert(fc.property(key, fc.integer({ min: 1, max: 9 }), rates, (key, attempt, rates) => {
      const [low, high] = rates.sort((a, b) => a - b)
      for (const name of ["drop_response", "lose"] as const) {
        const hit = (rate: number) =>
          strikesOn("seed", () => settings(rate), occasion(key, attempt)).find(name) !== null
        assert.isFalse(hit(0))
        assert.isTrue(hit(1))
        assert.isTrue(!hit(low!) || hit(high!))
      }
    }))
  })

  it("hits keys in proportion to the rate; transport faults are chosen again for each attempt", () => {
    const keys = Array.from({ length: 4000 }, (_, n) => `k${n}`)
    const hits = (name: "drop_response" | "lose", attempt: number) =>
      keys.filter((key) => strikesOn("seed", () => settings(0.25), occasion(key, attempt)).find(name) !== null)
    assert.approximately(hits("drop_response", 1).length, 1000, 120)
    assert.approximately(hits("lose", 1).length, 1000, 120)
    assert.deepStrictEqual(hits("lose", 1), hits("lose", 2))
    assert.notDeepEqual(hits("drop_response", 1), hits("drop_response", 2))
    assert.deepStrictEqual(hits("drop_response", 2), hits("drop_response", 2))
  })
})

describe("Instructions in the payload", () => {
  it.effect("decide the outcome, its time, and its failure", () =>
    Effect.gen(function*() {
      const { url } = yield* start()
      const at = (key: string, instruction: Record<string, unknown>) => submit(url, key, told(instruction))
      const why = { code: "no_way", message: "There is no way." }
      assert.strictEqual((yield* at("now", { outcome: "succeeded" })).status, 200)
      assert.strictEqual((yield* at("soon", { outcome: "succeeded", settle_after_ms: 500 })).status, 202)
      assert.strictEqual((yield* at("failing", { outcome: "failed", settle_after_ms: 500, ...why })).status, 202)
      const rejected = yield* at("rejected", { outcome: "rejected", ...why })
      assert.deepStrictEqual([rejected.status, rejected.json], [422, { ...why, idempotency_key: "rejected" }])
      assert.deepInclude((yield* read(url, "soon")).json, { status: "pending" })
      assert.deepInclude((yield* read(url, "failing")).json, { status: "pending" })
      yield* TestClock.adjust(500)
      assert.deepInclude((yield* read(url, "soon")).json, { status: "succeeded" })
      assert.deepInclude((yield* read(url, "failing")).json, { status: "failed", ...why })
      assert.deepInclude((yield* read(url, "rejected")).json, { status: "failed", ...why })
    }))

  it.effect("can keep a submission pending without end", () =>
    Effect.gen(function*() {
      const { truth, url } = yield* start()
      assert.strictEqual((yield* submit(url, "a", told({ outcome: "pending" }))).status, 202)
      yield* TestClock.adjust("4000 days")
      assert.deepInclude((yield* read(url, "a")).json, { status: "pending" })
      assert.deepStrictEqual(yield* truth("a"), { key: "a", receipts: 1, status: "pending", final: false })
    }))

  it.effect("that are invalid are answered 400 and leave the key unused", () =>
    Effect.gen(function*() {
      const { truth, url } = yield* start()
      const odd = [
        { outcome: "perhaps" },
        { outcome: "pending", settle_after_ms: 1 },
        { settle_after_ms: -1 },
        { faults: { refuse_connection: true } },
        { faults: { slow: { times: 0 } } },
        { surprise: 1 },
        "succeeded"
      ]
      for (const sandbox of odd) {
        const { json, status } = yield* submit(url, "a", { sandbox })
        assert.strictEqual(status, 400, JSON.stringify(sandbox))
        assert.match((json as { readonly message: string }).message, /^payload\.sandbox: [^\n]+$/)
      }
      assert.deepStrictEqual(yield* truth("a"), { key: "a", receipts: odd.length, status: "absent", final: false })
      assert.strictEqual((yield* submit(url, "a", told({ outcome: "succeeded" }))).status, 200)
    }))

  it.effect("do not override Send-Before: a passed time refuses the key permanently, and a later one changes nothing", () =>
    Effect.gen(function*() {
      const { record, truth, url } = yield* start()
      yield* TestClock.adjust(1000)
      const payload = told({ outcome: "succeeded" })
      const late = yield* submit(url, "a", payload, { "send-before": "1970-01-01T00:00:00.999Z" })
      assert.strictEqual(late.status, 409)
      assert.deepInclude(late.json, { code: "too_late" })
      assert.deepStrictEqual(yield* submit(url, "a", payload), late)
      assert.strictEqual((yield* read(url, "a")).status, 404)
      assert.strictEqual((yield* truth("a")).status, "refused")
      const inTime = yield* submit(url, "b", payload, { "send-before": "1970-01-01T01:00:01+01:00" })
      assert.strictEqual(inTime.status, 200)
      assert.strictEqual((yield* submit(url, "c", payload, { "send-before": "soon" })).status, 400)
      assert.deepStrictEqual((yield* record).map(({ outcome }) => outcome), [
        "too_late",
        "repeated",
        "accepted",
        "invalid"
      ])
    }))
})
