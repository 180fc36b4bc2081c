/**
 * `npm run wrong-key`: two workers use a wrong key for ten minutes while clients go on paying, and then the right one.
 *
 *     npm run wrong-key -- --minutes 10 --rate 20
 *
 * Exits with 1 if an operation ended for the wrong key, was not carried out once, or contradicts the bank's record. With --control
 * it exits with 0 if the judge found the mistake, and with 1 if it found nothing.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { choice, number, readOptions } from "../../../../bench/shared/usage.ts"
import { conclude, tally } from "../kit/Figure.ts"
import { mistakes } from "../kit/Mistakes.ts"
import { runWrongKey } from "./WrongKey.ts"

const { control, minutes, rate } = readOptions(import.meta.url, {
  minutes: number("Minutes with the wrong key", { from: 0.1, to: 1440, default: 10 }),
  rate: number("Payments a second", { from: 0.1, to: 1000, default: 20 }),
  control: choice(
    "Builds a known mistake into the workers, which the judge must find",
    ["refused_key_means_failed"] as const
  )
})

runWrongKey({
  rate,
  wrong: () => Effect.sleep(minutes * 30_000),
  mistake: control ?? undefined,
  say: (line) => void process.stderr.write(`${line}\n`)
}).pipe(
  Effect.tap(({ evidence, figures }) =>
    Effect.sync(() =>
      conclude(
        figures,
        [tally("operations at the end", evidence.operations.map(({ state }) => state))],
        `${minutes} minutes with a wrong key, ${rate} payments a second, two workers, one of them restarted`,
        control === null ? null : mistakes[control]
      )
    )
  ),
  NodeRuntime.runMain
)
