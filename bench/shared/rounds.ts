/** Rounds of several contestants in turn. */
import { Effect } from "effect"
import { withProgress } from "./progress.ts"

/**
 * Runs the rounds of all contestants in turn, so that other load on the machine affects each. The order alternates. Yields the
 * contestants with their rounds.
 */
export const alternate = <Contestant, Round, E, R>(
  label: string,
  rounds: number,
  contestants: ReadonlyArray<Contestant>,
  run: (contestant: Contestant, round: number) => Effect.Effect<Round, E, R>
) =>
  withProgress(
    { label, unit: "rounds", total: rounds * contestants.length },
    (progress) =>
      Effect.gen(function*() {
        const all = contestants.map((contestant) => ({ contestant, rounds: [] as Array<Round> }))
        for (let round = 1; round <= rounds; round++) {
          for (const { contestant, rounds } of round % 2 === 1 ? all : all.toReversed()) {
            rounds.push(yield* run(contestant, round))
            progress.advance()
          }
        }
        return all
      })
  )
