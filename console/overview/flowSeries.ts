/** The series that the plots of the overview show. */
import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { enteredIn, type Grid, type Series, standingIn } from "../charts/series.ts"
import { formatName } from "../data/format.ts"

type Flow = Overview["flow"]

/** Unsettled states in the order of the lifecycle, from the bottom of the stack. Those that need people are at its top. */
const unsettled = ["accepted", "submitting", "submitted", "indeterminate"]

/** Operations that are not settled, by state. */
export const unsettledSeries = (flow: Flow, grid: Grid): ReadonlyArray<Series> =>
  unsettled.map((state) => ({ name: state, label: formatName(state), values: standingIn(flow, grid, state) }))

/** Operations that were accepted, and that ended, in each interval. */
export const throughputSeries = (flow: Flow, grid: Grid): ReadonlyArray<Series> =>
  ["accepted", "succeeded", "failed", "cancelled"].map((state) => ({
    name: state,
    label: formatName(state),
    values: enteredIn(flow, grid, [state])
  }))
