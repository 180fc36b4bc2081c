/**
 * In thousands of seeds of the simulation every fault strikes, and no rule is broken. Every planted mistake is found.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { operationStates, transitions } from "../../../src/domain/Operation.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { plants } from "../../system/simulation/plants.ts"
import { simulate } from "../../system/simulation/Simulation.ts"
import { firstViolation, sweep } from "../../system/simulation/Sweep.ts"

const seeds = rounds(3000, 10_000)

/** Every fault that can strike, and every statement of the real parts. */
const kinds = [
  "a replaced server goes on",
  "adapter defect",
  "announcement lost",
  "claim taken over",
  "clock set",
  "crash",
  "database restart",
  "database: hang",
  "database: late",
  "database: lostAnswer",
  "database: lostStatement",
  "database: silence",
  "drain",
  "failover",
  "failover that loses commits",
  "hint",
  "network: answer for another operation",
  "network: answer garbled",
  "network: answer lost",
  "network: request late",
  "network: request lost",
  "not sent: late",
  "not sent: local failure",
  "not sent: refused",
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
  "provider takes on: failed",
  "provider takes on: pending",
  "provider takes on: rejected",
  "provider takes on: succeeded",
  "resume",
  "resume after suspension",
  "snapshot restored",
  "standing restored",
  "standing lost",
  "statement: claim",
  "statement: forgetBatches",
  "statement: readWitnessState",
  "statement: releaseProven",
  "statement: verify",
  "the replaced server is back",
  "verification: begun",
  "verification: missing",
  "verification: proven",
  "witness: answer lost",
  "witness: batches",
  "witness: compact",
  "witness: epoch",
  "witness: fence",
  "witness: no answer",
  "witness: record",
  "statement: claimReturned",
  "statement: hint",
  "statement: mayStillSend",
  "statement: postpone",
  "statement: readClock",
  "statement: prepare",
  "statement: record",
  "statement: recordAll",
  "statement: recordHeld",
  "statement: releaseUnsent",
  "statement: report",
  "statement: rescue",
  "statement: rescueClaimsOf",
  "statement: returnClaim",
  "statement: reviewAged",
  "statement: takeHeld",
  "statement: takeReads",
  "status read: adapterDefect",
  "status read: failed",
  "status read: foreignRead",
  "status read: hangingRead",
  "status read: never received",
  "status read: not_found",
  "status read: staleRead",
  "status read: submitted",
  "status read: succeeded",
  "status read: unclearRead",
  "status read: unreachableRead"
]

describe("the real workers, while every other part fails,", () => {
  it(`break no rule in ${seeds} seeds, in which every fault strikes and every transition happens`, async () => {
    const { counts, cpuSeconds, violations } = await Effect.runPromise(sweep(1, seeds))
    process.stdout.write(`${seeds} seeds in ${cpuSeconds.toFixed(1)} s of CPU\n`)
    assert.deepStrictEqual(violations.map(({ seed, violation }) => ({ seed, ...violation })), [])
    const allowed = operationStates.flatMap((from) => transitions[from].map((to) => `${from} → ${to}`))
    const missing = [...allowed, ...kinds].filter((kind) => !counts.has(kind))
    assert.deepStrictEqual(missing, [])
    const happened = [...counts.keys()].filter((kind) => kind.includes(" → "))
    assert.sameMembers(happened, ["nothing → accepted", ...allowed])
  }, 300_000)
})

/** Rare meetings of faults show some mistakes late. */
const seedsOfPlants = rounds(5000, 10_000)

describe("the judge finds a planted mistake:", () => {
  for (const [name, plant] of Object.entries(plants)) {
    it(name, async () => {
      const found = await Effect.runPromise(firstViolation(seedsOfPlants, () => ({ plant: plant() })))
      assert.isNotNull(found, "no seed finds it")
      const { seed, violation } = found!
      process.stdout.write(`${name}: seed ${seed} breaks "${violation!.rule}"\n`)
      const { circumstances } = plant()
      const control = simulate(seed, circumstances === undefined ? {} : { plant: { circumstances } })
      assert.isNull(control.violation, "the seed breaks a rule also without the mistake")
    }, 300_000)
  }
})
