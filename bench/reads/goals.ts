/** The goals of a scenario, and whether a run met them. */
import type { Measurement, Ratio } from "./compare.ts"

/** Bounds for the first target of a scenario, by the names of the others. */
export interface Goals {
  /** Requests per second, relative to another target. */
  readonly atLeast?: Readonly<Record<string, number>>
  readonly atMost?: Readonly<Record<string, number>>
  /** The other targets whose p99 must not be lower. */
  readonly p99NotAbove?: ReadonlyArray<string>
  /** Peak resident memory, in MiB. */
  readonly peakMemory?: number
}

export interface GoalResult {
  readonly goal: string
  /** Null if the target of the goal was not part of the run. */
  readonly value: number | null
  readonly holds: boolean | null
}

/** Judges the goals of the first target. */
export const judge = (goals: Goals, first: Measurement, ratios: ReadonlyArray<Ratio>): ReadonlyArray<GoalResult> => {
  const ratioTo = (name: string, of: (ratio: Ratio) => number): number | null => {
    const ratio = ratios.find(({ to }) => to === name)
    return ratio === undefined ? null : of(ratio)
  }
  const result = (goal: string, value: number | null, holds: (value: number) => boolean): GoalResult => ({
    goal,
    value,
    holds: value === null ? null : holds(value)
  })
  const { atLeast = {}, atMost = {}, p99NotAbove = [], peakMemory } = goals
  return [
    ...Object.entries(atLeast).map(([name, bound]) =>
      result(`at least ${bound} × ${name}`, ratioTo(name, ({ requests }) => requests), (ratio) => ratio >= bound)
    ),
    ...Object.entries(atMost).map(([name, bound]) =>
      result(`at most ${bound} × ${name}`, ratioTo(name, ({ requests }) => requests), (ratio) => ratio <= bound)
    ),
    ...p99NotAbove.map((name) =>
      result(`p99 not above that of ${name}`, ratioTo(name, ({ p99 }) => p99), (ratio) => ratio <= 1)
    ),
    ...peakMemory === undefined
      ? []
      : [result(`at most ${peakMemory} MiB`, first.peakMemory, (memory) => memory <= peakMemory)]
  ]
}
