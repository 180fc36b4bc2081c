import { formatCount } from "../data/format.ts"
import { anchorOf, formatTick, margin, type Scales } from "./scales.ts"
import type { Grid } from "./series.ts"

/** Lines and labels behind the plot. */
export const Axes = ({ grid, scales, scales: { columns, rows, x, y }, width }: {
  readonly grid: Grid
  readonly scales: Scales
  readonly width: number
}) => (
  <g class="axes">
    {rows.map((value) => (
      <g key={value}>
        <line x1={margin.left} x2={width - margin.right} y1={y(value)} y2={y(value)} />
        <text x={margin.left - 8} y={y(value)} dy="0.32em" text-anchor="end">{formatCount(value)}</text>
      </g>
    ))}
    {columns.map((time) => (
      <text key={time} x={x(time)} y={y(0) + 16} text-anchor={anchorOf(x(time), scales)}>{formatTick(grid, time)}</text>
    ))}
  </g>
)
