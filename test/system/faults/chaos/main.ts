/**
 * `npm run chaos`: four workers, the sandbox and PostgreSQL as processes of their own, and every kind of fault while
 * operations are accepted.
 *
 *     npm run chaos -- --operations 2000 --faults 100
 *
 * Prints the figures, and exits with 1 if a figure breaks its rule.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as fs from "node:fs"
import { choice, readOptions, text, unwritable, whole } from "../../../../bench/shared/usage.ts"
import { hasPassed } from "../kit/Figure.ts"
import { judge } from "../kit/Judge.ts"
import { plantedBugs } from "../kit/Plan.ts"
import { report } from "../kit/Report.ts"
import { runChaos } from "./Chaos.ts"
import { plot } from "./Plot.ts"

const values = readOptions(import.meta.url, {
  operations: whole("Operations that are accepted at least", { from: 1, to: 10_000_000, default: 20_000 }),
  faults: whole("Faults of processes and networks, besides the provider's own", {
    from: 0,
    to: 1_000_000,
    default: 1000
  }),
  seed: text("Chooses the order of the faults and the requests; their times depend on the machine", {
    takes: "TEXT",
    default: "chaos"
  }),
  duration: whole("Seconds after which acceptances and faults end", { from: 1, to: 86_400, default: 900 }),
  plot: text("File of the picture", { takes: "FILE", default: "chaos.svg", problem: unwritable }),
  bug: choice("Builds a known mistake into the workers, which the judge must find", plantedBugs)
})

const started = performance.now()
const seconds = () => ((performance.now() - started) / 1000).toFixed(0)

const options = {
  operations: values.operations,
  faults: values.faults,
  seed: values.seed,
  duration: values.duration,
  say: (line: string) => void process.stderr.write(`${seconds().padStart(4)} s  ${line}\n`),
  ...values.bug !== null && { bug: values.bug }
}

runChaos(options).pipe(
  Effect.flatMap((evidence) =>
    Effect.sync(() => {
      const figures = judge(evidence)
      for (const line of report(evidence, figures)) process.stdout.write(`${line}\n`)
      fs.writeFileSync(values.plot, plot(evidence))
      process.stdout.write(`\nseed ${values.seed}, ${seconds()} s, states over time in ${values.plot}\n`)
      if (!hasPassed(figures)) process.exitCode = 1
    })
  ),
  NodeRuntime.runMain
)
