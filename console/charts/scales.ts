/** Scales of the plots. */
import { scaleLinear, scaleUtc } from "d3-scale"
import type { Grid } from "./series.ts"

/** Pixels around the plot. */
export const margin = { top: 8, right: 8, bottom: 22, left: 36 } as const

const clockOf = (time: Date): string => time.toISOString().slice(11, 16)
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })

/** `18:05`, or the day if the grid is longer than one. */
export const formatTick = ({ interval, times }: Grid, time: Date): string =>
  interval * times.length > 86_400_000 ? dayOf.format(time) : clockOf(time)

/** `22 Nov, 18:05 UTC`. */
export const formatMoment = (time: number): string => `${dayOf.format(time)}, ${clockOf(new Date(time))} UTC`

export const scalesOf = (grid: Grid, max: number, width: number, height: number) => {
  const { times } = grid
  const x = scaleUtc([times[0]!, times.at(-1)!], [margin.left, width - margin.right])
  const y = scaleLinear([0, Math.max(1, max)], [height - margin.bottom, margin.top]).nice(3)
  return {
    x,
    y,
    /** Whole numbers only: there is no half of an operation. */
    rows: y.ticks(3).filter(Number.isInteger),
    columns: x.ticks(Math.max(2, Math.floor(width / 110)))
  }
}
