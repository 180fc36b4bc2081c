/**
 * The real worker, rescuer and reconciler break no rule when processes, network, database and clocks fail. A seed is always the same
 * run. `test/long/simulation` has thousands of seeds.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { asked, fenced, spending, withFences } from "./Circumstances.ts"
import { simulate } from "./Simulation.ts"
import { sweep } from "./Sweep.ts"

const seeds = 50

const traceOf = (seed: number): string => {
  const { hash, lines } = simulate(seed, { isVerbose: true })
  return [hash, ...lines].join("\n")
}

describe("the real workers, while every other part fails,", () => {
  it(`break no rule in ${seeds} seeds`, async () => {
    const { violations } = await Effect.runPromise(sweep(1, seeds))
    assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
  })

  it("break no rule at providers whose adapters have a fence, and leave no lost request to a person", async () => {
    for (const circumstances of [fenced, withFences, asked]) {
      // A person who asks makes a run ten times as long. `test/long/simulation` has the other seeds.
      const count = circumstances === asked ? 20 : seeds
      const { counts, violations } = await Effect.runPromise(sweep(1, count, { plant: { circumstances } }))
      assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
      for (const event of ["occupies the key", "cancelled"]) assert.isAbove(counts.get(`fence: ${event}`) ?? 0, 0)
      if (circumstances !== asked) continue
      for (const event of ["records the answer", "must ask again"]) {
        assert.isAbove(counts.get(`a person ${event}`) ?? 0, 0)
      }
    }
  })

  it("keep the limits of grants, and refuse nothing that fits", async () => {
    const { counts, violations } = await Effect.runPromise(sweep(1, seeds, { plant: { circumstances: spending } }))
    assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
    for (const event of ["limit_exceeded", "accepted → cancelled", "submitting → indeterminate"]) {
      assert.isAbove(counts.get(event) ?? 0, 0, event)
    }
  })

  it("run identically for the same seed", () => {
    for (let seed = 1; seed <= 10; seed++) {
      const first = traceOf(seed)
      assert.strictEqual(traceOf(seed), first)
      assert.strictEqual(simulate(seed).hash, first.split("\n")[0])
    }
    assert.notStrictEqual(simulate(1).hash, simulate(2).hash)
  })

  it("run identically for the same seed in another process", () => {
    const seed = 3
    const output = execFileSync(process.execPath, ["test/system/simulation/main.ts", "--seed", String(seed)], {
      encoding: "utf8"
    })
    const { hash, lines } = simulate(seed, { isVerbose: true })
    assert.deepStrictEqual(output.trimEnd().split("\n").slice(0, -1), lines)
    assert.include(output, `trace ${hash})`)
  })
})
