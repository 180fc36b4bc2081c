/**
 * `npm run wrong-key`: two workers use a wrong key for ten minutes while clients go on paying, and then the right one.
 *
 *     npm run wrong-key -- --minutes 10 --rate 20
 *
 * Exits with 1 if an operation ended for the wrong key, was not sent, or was sent twice.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { number, readOptions } from "../../../../bench/shared/usage.ts"
import { type Progress, withProgress } from "../../../../src/cli/ProgressBar.ts"
import { Platform } from "../kit/Platform.ts"
import { runWrongKey } from "./WrongKey.ts"

const values = readOptions(import.meta.url, {
  minutes: number("Minutes with the wrong key", { from: 0.1, to: 1440, default: 10 }),
  rate: number("Payments a second", { from: 0.1, to: 1000, default: 20 })
})

/** Half of the time. The scenario waits twice: before and after it restarts a worker. */
const wait = (progress: Progress) =>
  Effect.forEach(
    Array.from({ length: Math.ceil(values.minutes * 30) }),
    () => Effect.andThen(Effect.sleep("1 second"), Effect.sync(() => progress.advance())),
    { discard: true }
  )

const main = Effect.gen(function*() {
  const total = 2 * Math.ceil(values.minutes * 30)
  const result = yield* withProgress(
    { label: "Paying with a wrong key", unit: "seconds", total },
    (progress) => runWrongKey({ rate: values.rate, wrong: () => wait(progress) })
  )
  const { accepted, exits, paid, paidTwice, refused, settledWithin, statesAfter, statesBefore, warningDelay } = result
  const holds = paid === accepted && paidTwice === 0 && statesAfter["succeeded"] === accepted
    && exits.every((code) => code === 0)
  yield* Console.log([
    `${values.minutes} minutes with a wrong key, ${values.rate} payments a second, two workers, one of them restarted`,
    `  accepted                  ${accepted}`,
    `  before the correction     ${JSON.stringify(statesBefore)}`,
    `  refused by the bank       ${refused} attempts`,
    `  first warning             ${warningDelay} ms after the first refusal: ${result.firstWarning}`,
    `  after the correction      ${JSON.stringify(statesAfter)}, the last one after ${
      (settledWithin / 1000).toFixed(1)
    } s`,
    `  carried out by the bank   ${paid}, ${paidTwice} of them more than once`,
    holds ? "  every payment was sent once and settled" : "  BROKEN: see the figures above"
  ].join("\n"))
  if (!holds) process.exitCode = 1
}).pipe(Effect.provide(Platform))

NodeRuntime.runMain(main)
