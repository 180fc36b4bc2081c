/**
 * In thousands of seeds of the simulation every fault strikes, and no rule is broken. Every planted mistake is found.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { operationStates, transitions } from "../../../src/domain/Operation.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { asked } from "../../system/simulation/Circumstances.ts"
import { plants } from "../../system/simulation/plants.ts"
import { readFaults } from "../../system/simulation/ProviderTraits.ts"
import { databaseFaults } from "../../system/simulation/SimulatedDatabase.ts"
import { simulate } from "../../system/simulation/Simulation.ts"
import { firstViolation, sweep } from "../../system/simulation/Sweep.ts"

const seeds = rounds(1500, 10_000)

/** In these seeds at most a rare event is looked for, which a change of the simulation moves. */
const most = 10_000

/** Milliseconds, which only end what hangs: on a busy machine the seeds take ten times as long. */
const patience = 1_200_000

/** Kinds of events that begin with the same words. */
const kindsOf = (what: string, ...names: ReadonlyArray<string>) => names.map((name) => `${what}: ${name}`)

/** Every fault that can strike, and every statement of the real parts. */
const kinds = [
  ...kindsOf("database", ...databaseFaults),
  ...kindsOf("network", "answer for another operation", "answer garbled", "answer lost", "request late"),
  ...kindsOf("network", "request lost"),
  ...kindsOf("not sent", "late", "local failure", "refused"),
  ...kindsOf("provider takes on", "failed", "pending", "rejected", "succeeded"),
  ...kindsOf("statement", "claim", "claimReturned", "forgetBatches", "hint", "mayStillSend", "postpone", "prepare"),
  ...kindsOf("statement", "readClock", "readWitnessState", "record", "recordAll", "recordHeld", "releaseProven"),
  ...kindsOf("statement", "report", "rescue", "rescueClaimsOf", "returnClaim", "reviewAged"),
  ...kindsOf("statement", "takeHeld", "takeReads", "verify"),
  ...kindsOf("status read", ...readFaults),
  ...kindsOf("status read", "failed", "not found", "submitted", "succeeded"),
  ...kindsOf("verification", "begun", "missing", "proven"),
  ...kindsOf("witness", "answer lost", "batches", "compact", "epoch", "fence", "no answer", "record"),
  "a replaced server goes on",
  "adapter defect",
  "announcement lost",
  "claim taken over",
  "clock set",
  "crash",
  "database restart",
  "drain",
  "failover",
  "failover that loses commits",
  "hint",
  "limit_exceeded",
  "operator cancels",
  "operator holds",
  "operator holds all",
  "operator holds too late",
  "operator cancels too late",
  "operator may not cancel a held operation",
  "operator refuses",
  "operator must wait",
  "operator releases",
  "operator releases all",
  "operator reviews",
  "pause",
  "provider is busy",
  "provider refuses as late",
  "provider refuses the key",
  "resume",
  "resume after suspension",
  "snapshot restored",
  "standing restored",
  "standing lost",
  "the replaced server is back"
]

describe("the real workers, while every other part fails,", () => {
  it(`break no rule in ${seeds} seeds or more, in which every fault strikes and every transition happens`, async () => {
    const allowed = operationStates.flatMap((from) => transitions[from].map((to) => `${from} → ${to}`))
    const happened = new Set<string>()
    const missing = () => [...allowed, ...kinds].filter((kind) => !happened.has(kind))
    let next = 1
    while (next <= seeds || (missing().length > 0 && next <= most)) {
      const count = next === 1 ? seeds : 100
      const { counts, cpuSeconds, violations } = await Effect.runPromise(sweep(next, count))
      next += count
      process.stdout.write(`seeds until ${next - 1}, the last in ${cpuSeconds.toFixed(1)} s of CPU\n`)
      assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
      for (const kind of counts.keys()) happened.add(kind)
    }
    assert.deepStrictEqual(missing(), [])
    assert.sameMembers([...happened].filter((kind) => kind.includes(" → ")), ["nothing → accepted", ...allowed])
  }, patience)

  it("break no rule while persons ask the provider between fences", async () => {
    const { violations } = await Effect.runPromise(sweep(21, 80, { plant: { circumstances: asked } }))
    assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
  }, patience)
})

/** Rare meetings of faults show some mistakes late. */
const seedsOfPlants = rounds(5000, 10_000)

/** The seeds that found these mistakes last. Once the simulation has changed, the tests look for others. */
const lateSeeds: Readonly<Record<string, number>> = {
  "a witness that ignores the epoch": 22,
  "a worker that takes the epoch from the witness": 17,
  "a take-over that is not witnessed": 129,
  "batches that are read before the fence": 760,
  "a claim under way that outlives the hold": 31,
  "a retry that does not check for revoked consent": 19,
  "rescue to failed": 461,
  "a claim is returned after an attempt that may have sent": 73,
  "a local failure counts as an unreachable provider": 16,
  "a restored snapshot whose operations are not held": 74,
  "no review of operations that no worker can act on": 56,
  "a hint that ends the wait of the rescuer": 22,
  "no rescuer": 11,
  "a send deadline by a clock that can be set": 4788
}

describe("the judge finds a planted mistake:", () => {
  for (const [name, plant] of Object.entries(plants)) {
    it(name, async () => {
      const found = await Effect.runPromise(firstViolation(seedsOfPlants, () => ({ plant: plant() }), lateSeeds[name]))
      assert.isNotNull(found, "no seed finds it")
      const { seed, violation } = found!
      process.stdout.write(`${name}: seed ${seed} breaks "${violation!.rule}"\n`)
      const { circumstances } = plant()
      const control = simulate(seed, circumstances === undefined ? {} : { plant: { circumstances } })
      assert.isNull(control.violation, "the seed breaks a rule also without the mistake")
    }, patience)
  }
})
