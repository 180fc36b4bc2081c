/**
 * Four workers keep every rule while processes are killed and networks fail, and the judge finds planted mistakes. This
 * is the short form of `npm run chaos` (`main.ts`).
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { rounds } from "../../../fixtures/Effort.ts"
import { bankNames } from "../kit/Banks.ts"
import { brokenIn, type Figures, figuresTable, foundOf } from "../kit/Figure.ts"
import { judge } from "../kit/Judge.ts"
import { mistakeNames, mistakes } from "../kit/Mistakes.ts"
import { runChaos } from "./Chaos.ts"

/** Time limit in seconds, settling included: an idle machine needs far less. */
const patience = 240

/** A failure shows some of the violations. */
const assertKept = (figures: Figures) => assert.deepStrictEqual(brokenIn(figures), [], figuresTable(figures).join("\n"))

describe("four workers, a provider and PostgreSQL, as processes of their own", () => {
  it.live(
    "keep every rule while they are killed, stopped and disconnected from each other",
    () =>
      Effect.gen(function*() {
        const evidence = yield* runChaos({
          operations: rounds(200, 600),
          faults: rounds(30, 60),
          seed: "short",
          duration: 120
        })
        // Other tests use the machine: only the long form checks how soon a rescue comes.
        assertKept(judge(evidence, 30_000))
        assert.isAbove(evidence.outages.length, 0)
        assert.isAbove(evidence.workerStarts, 4)
      }),
    patience * 1000
  )

  it.live(
    "exceed no budget, while many callers ask for more than the limits permit",
    () =>
      Effect.gen(function*() {
        const evidence = yield* runChaos({
          operations: rounds(1000, 10_000),
          faults: rounds(10, 60),
          seed: "limits",
          duration: 120,
          spenders: { owners: 5, callers: 100 }
        })
        // A busy machine answers fewer requests, and reaches fewer points.
        const { accepted: _, injected: __, unvisited: ___, ...figures } = judge(evidence, 30_000)
        assertKept({ ...figures, ...evidence.spending })
        assert.isAbove(evidence.acceptances.filter(({ refused }) => refused === true).length, 100)
      }),
    patience * 1000
  )

  it.live.each(bankNames)(
    "keep every rule with the simulator of the bank %s and its adapter",
    (bank) =>
      Effect.gen(function*() {
        // The adapter meets the faults of its bank. Those of processes and networks meet the workers, in the test above.
        const asked = { operations: rounds(100, 300), faults: rounds(0, 40), seed: bank, duration: 120 }
        assertKept(judge(yield* runChaos({ ...asked, bank }), 30_000))
      }),
    patience * 1000
  )

  for (const mistake of mistakeNames.slice(0, rounds(1, mistakeNames.length))) {
    it.live(
      `break a rule if the workers have the mistake ${mistake}`,
      () =>
        Effect.gen(function*() {
          // The mistake shows before all operations are settled.
          const options = { operations: 200, faults: 0, seed: mistake, duration: 60, settling: 3, mistake }
          assert.isNotEmpty(foundOf(mistakes[mistake], judge(yield* runChaos(options))))
        }),
      patience * 1000
    )
  }
})
