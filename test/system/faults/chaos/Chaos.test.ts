/**
 * Four workers keep every rule while processes are killed and networks fail, and the judge finds planted mistakes. This
 * is the short form of `npm run chaos` (`main.ts`).
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { rounds } from "../../../fixtures/Effort.ts"
import { judge } from "../kit/Judge.ts"
import { type PlantedBug, plantedBugs } from "../kit/Plan.ts"
import { runChaos } from "./Chaos.ts"

const broken = (figures: ReturnType<typeof judge>) => figures.filter(({ holds }) => !holds)

/** Time limit in seconds, settling included: an idle machine needs far less. */
const patience = 240

/** The figure that each planted mistake breaks. */
const breaks: Readonly<Record<PlantedBug, string>> = {
  retry_uncertain: "double submissions, by the provider's record",
  resend_after_rescue: "double submissions, by the provider's record",
  not_found_means_failed: "settled against the provider's record"
}

describe("four workers, a provider and PostgreSQL, as processes of their own", () => {
  it.live(
    "keep every rule while they are killed, stopped and disconnected from each other",
    () =>
      Effect.gen(function*() {
        const evidence = yield* runChaos({
          operations: rounds(300, 600),
          faults: rounds(30, 60),
          seed: "short",
          duration: 120
        })
        // Other tests use the machine: only the long form checks how soon a rescue comes.
        assert.deepStrictEqual(broken(judge(evidence, 30_000)), [])
        assert.isAbove(evidence.outages.length, 0)
        assert.isAbove(evidence.workerStarts, 4)
      }),
    patience * 1000
  )

  // The simulation finds each of these mistakes as well, and in less time.
  for (const bug of plantedBugs.slice(0, rounds(1, plantedBugs.length))) {
    it.live(
      `break a rule if the workers have the mistake ${bug}`,
      () =>
        Effect.gen(function*() {
          // The mistake shows before all operations are settled.
          const evidence = yield* runChaos({ operations: 200, faults: 0, seed: bug, duration: 60, settling: 3, bug })
          assert.include(broken(judge(evidence)).map(({ name }) => name), breaks[bug])
        }),
      patience * 1000
    )
  }
})
