/** Runs many seeds, one after the other. Between two of them signals and other fibers get their turn. */
import { Effect } from "effect"
import { type Result, simulate, type SimulationOptions } from "./Simulation.ts"
import type { Counts } from "./Trace.ts"

export interface Sweep {
  readonly seeds: number
  /** Runs that broke a rule. */
  readonly violations: ReadonlyArray<Result>
  /** How often each kind of event happened, in all runs. */
  readonly counts: Counts
  readonly steps: number
  /** Seconds of true time that were simulated. */
  readonly simulatedSeconds: number
  readonly cpuSeconds: number
}

/** Errors are values here: stack traces are expensive and unused. */
const withoutStacks = <A>(run: () => A): A => {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return run()
  } finally {
    Error.stackTraceLimit = limit
  }
}

/** Runs a seed. After some milliseconds of seeds, the event loop runs. */
const run = (seed: number, options: SimulationOptions) =>
  Effect.andThen(Effect.yieldNow, Effect.sync(() => withoutStacks(() => simulate(seed, options))))

/** Runs `count` seeds, from the first one on. `onSeed` follows each. */
export const sweep = (
  first: number,
  seeds: number,
  { onSeed, ...options }: SimulationOptions & { readonly onSeed?: () => void } = {}
): Effect.Effect<Sweep> =>
  Effect.gen(function*() {
    const counts: Counts = new Map()
    const violations: Array<Result> = []
    let steps = 0
    let time = 0
    const started = process.cpuUsage()
    for (let seed = first; seed < first + seeds; seed++) {
      const result = yield* run(seed, options)
      onSeed?.()
      for (const [kind, count] of result.counts) counts.set(kind, (counts.get(kind) ?? 0) + count)
      steps += result.steps
      time += result.time
      if (result.violation !== null) violations.push(result)
    }
    const { system, user } = process.cpuUsage(started)
    return { seeds, violations, counts, steps, simulatedSeconds: time / 1000, cpuSeconds: (system + user) / 1e6 }
  })

/** The first of the seeds that breaks a rule, or null. `likely` is tried before them. */
export const firstViolation = (
  seeds: number,
  options: () => SimulationOptions,
  likely = 1
): Effect.Effect<Result | null> =>
  Effect.gen(function*() {
    for (const seed of [likely, ...Array.from({ length: seeds }, (_, index) => index + 1)]) {
      const result = yield* run(seed, options())
      if (result.violation !== null) return result
    }
    return null
  })
