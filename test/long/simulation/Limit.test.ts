/**
 * The limit of a provider holds for four real workers together, also while they crash and restart: its true record of arrivals
 * never has more requests in an interval.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { defaultPolicy } from "../../../src/submission/SubmissionPolicy.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { limited } from "../../system/simulation/Circumstances.ts"
import { plants } from "../../system/simulation/plants.ts"
import type { Scenario } from "../../system/simulation/Scenario.ts"
import { type Plant, Simulation } from "../../system/simulation/Simulation.ts"
import { sweep } from "../../system/simulation/Sweep.ts"

const seconds = 60

/** More operations than the limit admits in this time, all of them early. */
const saturated = (crash: number) => (scenario: Scenario): Scenario => {
  const { mishaps, ...others } = limited(scenario)
  return {
    ...others,
    policy: { ...defaultPolicy, rescueAfter: Duration.seconds(61) },
    operations: 3000,
    calmAt: seconds * 1000,
    accounts: 2,
    mishaps: { ...mishaps, crash },
    providers: others.providers.slice(0, 1).map((provider) => ({
      ...provider,
      forgetful: 0,
      limit: { requests: 50, interval: "1 second" as const }
    }))
  }
}

/** Runs four workers for 60 simulated seconds. */
const run = (seed: number, crash: number, plant: Plant = {}) => {
  const simulation = new Simulation(seed, { plant: { ...plant, circumstances: saturated(crash) } })
  const { judge, world } = simulation
  for (let number = 0; number < 4; number++) {
    // Unlike in other runs, each process that dies is restarted soon.
    const start = () => {
      simulation.startProcess().onExit = () => world.after(world.chance.below(500), start)
    }
    start()
  }
  simulation.accounts.open()
  simulation.mischief.begin()
  while (judge.violation === null && world.now < seconds * 1000 && world.step());
  return { violation: judge.violation, arrivals: judge.arrivals, processes: simulation.processes.length }
}

describe("four workers and a limit of 50 requests a second, for 60 simulated seconds,", () => {
  it("never exceed the limit, and use most of it", () => {
    const { arrivals, violation } = run(1, Infinity)
    assert.isNull(violation)
    // 50 a second are possible in a window; the slack and the burst lower the average to 45.
    process.stdout.write(`${arrivals} requests in ${seconds} s\n`)
    assert.isAtLeast(arrivals, 35 * seconds)
    assert.isAtMost(arrivals, 50 * seconds)
  }, 300_000)

  it("never exceed the limit while they crash and restart", () => {
    const { arrivals, processes, violation } = run(2, 1000)
    assert.isNull(violation)
    process.stdout.write(`${arrivals} requests in ${seconds} s, by ${processes} processes\n`)
    assert.isAtLeast(processes, 10)
    assert.isAtLeast(arrivals, 20 * seconds)
  }, 300_000)

  it("are found out if each counts alone", () => {
    const { violation } = run(2, 1000, plants["a limit that each process counts alone"]!())
    assert.strictEqual(violation?.rule, "no more requests arrive in any interval than the limit of the provider")
  }, 300_000)
})

describe("workers of a provider with a limit, while every other part fails,", () => {
  const seeds = rounds(200, 3000)
  const withLimit = (scenario: Scenario): Scenario => ({
    ...scenario,
    providers: scenario.providers.map((provider) => ({
      ...provider,
      limit: { requests: 10, interval: "1 second" as const }
    }))
  })

  it(`break no other rule in ${seeds} seeds`, async () => {
    const { counts, violations } = await Effect.runPromise(
      sweep(1, seeds, { plant: { circumstances: withLimit } })
    )
    assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
    for (const kind of ["statement: reservePermits", "statement: openPermits", "statement: closeProvider"]) {
      assert.isTrue(counts.has(kind), kind)
    }
  }, 300_000)
})
