/** The faults of a run, and the times after them. */
import { assert, describe, it } from "@effect/vitest"
import { makeDice } from "../kit/Dice.ts"
import { dealFaults, leavesMajority, nameOf } from "./Faults.ts"
import { faultKinds } from "./Plan.ts"
import { backAfter } from "./Report.ts"

const deal = (seed: string, count: number) => dealFaults(count, [], makeDice(seed, "deck"))

describe("the faults of a cluster", () => {
  it("are all there in the short form of fifteen", () => {
    const faults = deal("short", 15)
    assert.strictEqual(faults.filter(({ second }) => second !== undefined).length, 1)
    const single = faults.filter(({ second }) => second === undefined).map(({ kind }) => kind)
    assert.sameMembers(single, faultKinds.filter((kind) => kind !== "pair"))
  })

  it("are the same for the same seed, and others for another", () => {
    assert.deepStrictEqual(deal("one", 60), deal("one", 60))
    assert.notDeepEqual(deal("one", 60), deal("two", 60))
  })

  it("are only those that were asked for", () => {
    const faults = dealFaults(5, ["freeze", "cut"], makeDice("one", "deck"))
    assert.strictEqual(faults.length, 5)
    assert.sameMembers([...new Set(faults.map(nameOf))], ["freeze", "cut"])
  })

  it("leave no majority without etcd, or when both the primary and its synchronous standby are struck", () => {
    assert.isTrue(leavesMajority({ kind: "freeze" }))
    assert.isTrue(leavesMajority({ kind: "kill_standby" }))
    assert.isFalse(leavesMajority({ kind: "etcd_down" }))
    assert.isFalse(leavesMajority({ kind: "cut", second: "etcd_down" }))
    assert.isFalse(leavesMajority({ kind: "kill_node", second: "kill_standby" }))
  })
})

describe("the time until service is back", () => {
  const every = (from: number, to: number) => Array.from({ length: (to - from) / 500 }, (_, n) => from + n * 500)

  it("is zero without a silence", () => {
    assert.strictEqual(backAfter(10_000, 60_000, every(0, 60_000)), 0)
  })

  it("lasts until the end of the longest silence", () => {
    const times = [...every(0, 11_000), ...every(14_000, 16_000), ...every(22_000, 60_000)]
    assert.strictEqual(backAfter(10_000, 60_000, times), 12_000)
  })

  it("does not include a silence of the fault before", () => {
    assert.strictEqual(backAfter(10_000, 60_000, [0, ...every(9000, 60_000)]), 0)
  })
})
