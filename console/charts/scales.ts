/** Scales of the plots: from values to pixels, and round values for the axes. */
import type { Grid } from "./series.ts"

/** Pixels around the plot. */
export const margin = { top: 8, right: 8, bottom: 22, left: 36 } as const

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** Distances between two times of the axis. */
const timeSteps = [5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day]

/** A whole number of 1, 2 or 5 times a power of ten, so that at most `count` steps reach the maximum. */
export const countStep = (max: number, count: number): number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, max / count)))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step * count >= max)!
}

/** The round times within the range, at most `count` of them. */
export const timesOf = (first: number, last: number, count: number): ReadonlyArray<number> => {
  const step = timeSteps.find((step) => (last - first) / step <= count) ?? 7 * day
  const start = Math.ceil(first / step) * step
  return Array.from({ length: Math.floor((last - start) / step) + 1 }, (_, index) => start + index * step)
}

const clockOf = (time: number): string => new Date(time).toISOString().slice(11, 16)
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })

/** `18:05`, or the day if the grid is longer than one. */
export const formatTick = ({ interval, times }: Grid, time: number): string =>
  interval * times.length > day ? dayOf.format(time) : clockOf(time)

/** `22 Nov, 18:05 UTC`. */
export const formatMoment = (time: number): string => `${dayOf.format(time)}, ${clockOf(time)} UTC`

/** `, since 18:05` if the grid of a young ledger is shorter than its range. */
export const sinceOf = (grid: Grid, hours: number): string =>
  grid.interval * grid.times.length < hours * hour ? `, since ${formatTick(grid, grid.times[0]!)}` : ""

export interface Scales {
  /** Pixels of an instant. */
  readonly x: (time: number) => number
  /** Pixels of a value. */
  readonly y: (value: number) => number
  /** The index of the interval that the pixel is in. */
  readonly indexAt: (pixel: number) => number
  /** Pixels of the right edge: the end of the last interval. */
  readonly end: number
  /** Values with a line. They are whole numbers: there is no half of an operation. */
  readonly rows: ReadonlyArray<number>
  /** Times with a label. */
  readonly columns: ReadonlyArray<number>
}

/** How the label of a time stands at it, so that the right edge of the plot leaves it whole. */
export const anchorOf = (pixel: number, { end }: Pick<Scales, "end">): "middle" | "end" =>
  pixel > end - labelWidth / 4 ? "end" : "middle"

/** Pixels that the label of a time needs. */
const labelWidth = 80

export const scalesOf = ({ interval, times }: Grid, max: number, width: number, height: number): Scales => {
  const first = times[0]!
  const last = times.at(-1)! + interval
  const step = countStep(Math.max(1, max), 3)
  const steps = Math.max(1, Math.ceil(max / step))
  const across = width - margin.left - margin.right
  const down = height - margin.top - margin.bottom
  return {
    x: (time) => margin.left + (across * (time - first)) / (last - first),
    y: (value) => margin.top + down * (1 - value / (steps * step)),
    indexAt: (pixel) => {
      const index = Math.floor(((pixel - margin.left) / across) * ((last - first) / interval) + 1e-6)
      return Math.min(times.length - 1, Math.max(0, index))
    },
    end: margin.left + across,
    rows: Array.from({ length: steps + 1 }, (_, index) => index * step),
    columns: timesOf(first, last, Math.max(2, Math.floor(across / labelWidth)))
  }
}
