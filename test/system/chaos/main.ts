/**
 * `npm run chaos`: four workers, the sandbox and PostgreSQL as processes of their own, and every kind of fault while
 * operations are accepted.
 *
 *   --operations N  accepts at least N operations (20,000 by default)
 *   --faults N      injects N faults of processes and networks (1,000 by default), besides the provider's own faults
 *   --seed S        the order of the faults, the requests and the provider's faults. Their times depend on the
 *                   machine: no two runs are the same
 *   --duration N    seconds after which acceptances and faults end (900 by default)
 *   --plot FILE     file of the picture (chaos.svg by default)
 *   --bug NAME      builds a known mistake into the workers (see `PlantedBugs`), which the judge must find
 *
 * Prints the figures, and exits with 1 if a figure breaks its rule.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as fs from "node:fs"
import { parseArgs } from "node:util"
import { runChaos } from "./Chaos.ts"
import { hasPassed, judge } from "./Judge.ts"
import { type PlantedBug, plantedBugs } from "./Plan.ts"
import { plot } from "./Plot.ts"
import { report } from "./Report.ts"

const { values } = parseArgs({
  options: {
    operations: { type: "string", default: "20000" },
    faults: { type: "string", default: "1000" },
    seed: { type: "string", default: "chaos" },
    duration: { type: "string", default: "900" },
    plot: { type: "string", default: "chaos.svg" },
    bug: { type: "string" }
  }
})

const wholeNumber = (name: "operations" | "faults" | "duration", least: number): number => {
  const number = Number(values[name])
  if (!Number.isSafeInteger(number) || number < least) {
    throw new Error(`--${name} must be a whole number from ${least} on`)
  }
  return number
}

const isBug = (name: string): name is PlantedBug => (plantedBugs as ReadonlyArray<string>).includes(name)

if (values.bug !== undefined && !isBug(values.bug)) throw new Error(`--bug must be one of ${plantedBugs.join(", ")}`)

const started = performance.now()
const seconds = () => ((performance.now() - started) / 1000).toFixed(0)

const options = {
  operations: wholeNumber("operations", 1),
  faults: wholeNumber("faults", 0),
  seed: values.seed,
  duration: wholeNumber("duration", 1),
  say: (line: string) => void process.stderr.write(`${seconds().padStart(4)} s  ${line}\n`),
  ...values.bug !== undefined && { bug: values.bug }
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
