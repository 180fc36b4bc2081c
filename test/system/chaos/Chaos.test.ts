/**
 * The short form of `npm run chaos`. See `main.ts` for the long one.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { runChaos } from "./Chaos.ts"
import { judge } from "./Judge.ts"
import { type PlantedBug, plantedBugs } from "./Plan.ts"

const broken = (figures: ReturnType<typeof judge>) => figures.filter(({ holds }) => !holds)

/** Seconds, settling included: most of it is left over on a machine that does nothing else. */
const patience = 240

/** Which promise each of the mistakes breaks, by the name of the figure. */
const breaks: Readonly<Record<PlantedBug, string>> = {
  retry_uncertain: "double submissions, by the provider's record",
  resend_after_rescue: "double submissions, by the provider's record",
  not_found_means_failed: "settled against the provider's truth"
}

describe("four workers, a provider and PostgreSQL, as processes of their own", () => {
  it.live(
    "keep every promise while they are killed, stopped and cut off from each other",
    () =>
      Effect.gen(function*() {
        const evidence = yield* runChaos({ operations: 600, faults: 60, seed: "short", duration: 120 })
        // Other tests use the machine: how soon a rescue comes is for the long form to show.
        assert.deepStrictEqual(broken(judge(evidence, 30_000)), [])
        assert.isAbove(evidence.outages.length, 0)
        assert.isAbove(evidence.workerStarts, 4)
      }),
    patience * 1000
  )

  for (const bug of plantedBugs) {
    it.live(
      `are convicted when the workers have the mistake ${bug}`,
      () =>
        Effect.gen(function*() {
          // Nobody has to wait until everything is settled, to see that something went wrong.
          const evidence = yield* runChaos({ operations: 200, faults: 0, seed: bug, duration: 60, settling: 3, bug })
          assert.include(broken(judge(evidence)).map(({ name }) => name), breaks[bug])
        }),
      patience * 1000
    )
  }
})
