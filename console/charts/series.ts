/** Makes even series of the flow, which leaves out intervals without a change. */
import type { Overview } from "../../src/operator/console/ConsoleApi.ts"

type Point = Overview["flow"][number]

/** One value for each time. */
export interface Series {
  readonly name: string
  readonly label: string
  readonly values: ReadonlyArray<number>
}

/** Begins of intervals, and how long each is, in milliseconds. */
export interface Grid {
  readonly times: ReadonlyArray<number>
  readonly interval: number
}

const minute = 60_000

/** Fewest intervals of a grid: the range of a young ledger grows from here. */
const fewest = 20

/**
 * The intervals of the last hours, up to the one that `at` is in: minutes up to 3 hours, otherwise hours. They begin one before the
 * earliest point of the flow, so that a young ledger has no empty plot.
 */
export const gridOf = (at: number, hours: number, flow: ReadonlyArray<Pick<Point, "at">>): Grid => {
  const interval = hours <= 3 ? minute : 60 * minute
  const last = Math.floor(at / interval) * interval
  const earliest = flow.reduce((time, { at }) => Math.min(time, Date.parse(at)), Infinity)
  const needed = earliest === Infinity ? 0 : Math.ceil((last - earliest) / interval) + 2
  const count = Math.min((hours * 60 * minute) / interval, Math.max(fewest, needed))
  return { interval, times: Array.from({ length: count }, (_, index) => last - (count - 1 - index) * interval) }
}

const byProvider = (
  flow: ReadonlyArray<Point>
): ReadonlyArray<ReadonlyArray<Point>> => [...Map.groupBy(flow, ({ provider }) => provider).values()]

/** The operations in a state at the end of each interval. A provider keeps its numbers until its next point. */
export const standingIn = (flow: ReadonlyArray<Point>, { times }: Grid, state: string): ReadonlyArray<number> => {
  const totals = times.map(() => 0)
  for (const points of byProvider(flow)) {
    let next = 0
    let standing = 0
    for (const [index, time] of times.entries()) {
      while (next < points.length && Date.parse(points[next]!.at) <= time) {
        standing = points[next++]!.standing[state] ?? 0
      }
      totals[index]! += standing
    }
  }
  return totals
}

/** The operations that entered one of the states in each interval. */
export const enteredIn = (
  flow: ReadonlyArray<Point>,
  { times }: Grid,
  states: ReadonlyArray<string>
): ReadonlyArray<number> => {
  const indexes = new Map(times.map((time, index) => [time, index]))
  const totals = times.map(() => 0)
  for (const { at, entered } of flow) {
    const index = indexes.get(Date.parse(at))
    if (index === undefined) continue
    for (const state of states) totals[index]! += entered[state] ?? 0
  }
  return totals
}

/** The edges between series on top of each other: zeros, the first, the first and the second, and so on. */
export const stacked = (series: ReadonlyArray<Series>): ReadonlyArray<ReadonlyArray<number>> => {
  const edges = [series[0]!.values.map(() => 0)]
  for (const { values } of series) edges.push(values.map((value, at) => edges.at(-1)![at]! + value))
  return edges
}

/** About `count` indexes of the times, the last one among them: rows of a table. */
export const sampled = ({ times }: Grid, count = 12): ReadonlyArray<number> => {
  const step = Math.max(1, Math.round(times.length / count))
  return times.map((_, index) => index).filter((index) => (times.length - 1 - index) % step === 0)
}
