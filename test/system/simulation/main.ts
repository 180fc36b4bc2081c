/**
 * `npm run simulate`: the real workers against a model of database, network and providers, deterministic by seed.
 *
 *   --seeds N   runs N seeds (10,000 by default), and prints their speed and their events
 *   --from S    the first of them (1 by default)
 *   --seed S    runs one seed and prints all of its events
 *   --plants    plants every known mistake, and prints the seed that finds it
 *
 * Exits with 1 if a rule was broken, or a mistake was not found.
 */
import { parseArgs } from "node:util"
import { plants } from "./plants.ts"
import { type Result, simulate } from "./Simulation.ts"
import { firstViolation, sweep } from "./Sweep.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "10000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    plants: { type: "boolean", default: false }
  }
})

const say = (line: string) => process.stdout.write(`${line}\n`)

const describe = ({ seed, violation }: Result) =>
  violation === null ? `seed ${seed} breaks no rule` : `seed ${seed} breaks "${violation.rule}": ${violation.detail}`

const wholeNumber = (name: string, text: string): number => {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 0) throw new Error(`--${name} must be a whole number`)
  return number
}

const replay = (seed: number): boolean => {
  const result = simulate(seed, { isVerbose: true })
  for (const line of result.lines) say(line)
  say(`${describe(result)} (${result.steps} steps, trace ${result.hash})`)
  return result.violation === null
}

const findPlants = (seeds: number): boolean => {
  let areAllFound = true
  for (const [name, plant] of Object.entries(plants)) {
    const found = firstViolation(seeds, () => ({ plant: plant() }))
    say(`${name.padEnd(60)} ${found === null ? "NOT FOUND" : describe(found)}`)
    areAllFound &&= found !== null
  }
  return areAllFound
}

const run = (first: number, seeds: number): boolean => {
  const { counts, cpuSeconds, simulatedSeconds, steps, violations } = sweep(first, seeds)
  for (const [kind, count] of [...counts].toSorted()) say(`${String(count).padStart(10)}  ${kind}`)
  say(
    `${seeds} seeds, ${steps} steps and ${Math.round(simulatedSeconds / 3600)} simulated hours in `
      + `${cpuSeconds.toFixed(1)} s of CPU: ${Math.round(seeds / cpuSeconds)} seeds a second`
  )
  for (const violation of violations.slice(0, 20)) say(describe(violation))
  say(`${violations.length} of ${seeds} seeds broke a rule`)
  return violations.length === 0
}

const seeds = wholeNumber("seeds", values.seeds)
const isGood = values.seed !== undefined
  ? replay(wholeNumber("seed", values.seed))
  : values.plants
  ? findPlants(seeds)
  : run(wholeNumber("from", values.from), seeds)
if (!isGood) process.exitCode = 1
