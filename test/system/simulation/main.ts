/**
 * `npm run simulate`: the real workers against a model of database, network and providers, deterministic by seed.
 *
 *     npm run simulate -- --seeds 1000
 *
 * Exits with 1 if a rule was broken, or a mistake was not found.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { withProgress } from "../../../bench/shared/progress.ts"
import { fail, flag, readOptions, whole } from "../../../bench/shared/usage.ts"
import { plants } from "./plants.ts"
import { type Result, simulate } from "./Simulation.ts"
import { firstViolation, sweep } from "./Sweep.ts"

const anySeed = { from: 0, to: Number.MAX_SAFE_INTEGER }

const values = readOptions(import.meta.url, {
  seeds: whole("Runs this many seeds, and prints their speed and their events", { from: 1, to: 1e9, default: 10_000 }),
  from: whole("The first of them", { ...anySeed, default: 1 }),
  seed: whole("Runs this seed alone, and prints all of its events", { ...anySeed, default: null }),
  plants: flag("Plants every known mistake, and prints the seed that finds it")
})
if (values.plants && values.seed !== null) fail("specify at most one of --seed and --plants")

const say = (line: string) => process.stdout.write(`${line}\n`)

const describe = ({ seed, violation }: Result) =>
  violation === null ? `seed ${seed} breaks no rule` : `seed ${seed} breaks "${violation.rule}": ${violation.detail}`

const replay = (seed: number): boolean => {
  const result = simulate(seed, { isVerbose: true })
  for (const line of result.lines) say(line)
  say(`${describe(result)} (${result.steps} steps, trace ${result.hash})`)
  return result.violation === null
}

const findPlants = (seeds: number) =>
  withProgress(
    { label: "Planting", unit: "mistakes", total: Object.keys(plants).length },
    (progress) =>
      Effect.gen(function*() {
        let areAllFound = true
        for (const [name, plant] of Object.entries(plants)) {
          const found = yield* firstViolation(seeds, () => ({ plant: plant() }))
          progress.advance()
          const line = `${name.padEnd(60)} ${found === null ? "NOT FOUND" : describe(found)}`
          say(line)
          areAllFound &&= found !== null
        }
        return areAllFound
      })
  )

const run = Effect.fnUntraced(function*(first: number, seeds: number) {
  const { counts, cpuSeconds, simulatedSeconds, steps, violations } = yield* withProgress(
    { label: "Simulating", unit: "seeds", total: seeds },
    ({ advance }) => sweep(first, seeds, { onSeed: advance })
  )
  for (const [kind, count] of [...counts].toSorted()) say(`${String(count).padStart(10)}  ${kind}`)
  say(
    `${seeds} seeds, ${steps} steps and ${Math.round(simulatedSeconds / 3600)} simulated hours in `
      + `${cpuSeconds.toFixed(1)} s of CPU: ${Math.round(seeds / cpuSeconds)} seeds a second`
  )
  for (const violation of violations.slice(0, 20)) say(describe(violation))
  say(`${violations.length} of ${seeds} seeds broke a rule`)
  return violations.length === 0
})

const main = Effect.gen(function*() {
  const isGood = values.seed !== null
    ? replay(values.seed)
    : yield* values.plants ? findPlants(values.seeds) : run(values.from, values.seeds)
  if (!isGood) process.exitCode = 1
})

NodeRuntime.runMain(main)
