import { formatCount } from "../data/format.ts"
import type { Series } from "./series.ts"

/** Names of the series, with their values now or at the cursor. */
export const Legend = ({ at, moment, series }: {
  readonly series: ReadonlyArray<Series>
  readonly at: number
  readonly moment: string | null
}) => (
  <div class="legend">
    {series.map(({ label, name, values }) => (
      <span key={name} class="legend-entry">
        <svg class={`swatch series-${name}`} viewBox="0 0 16 12" width="16" height="12" aria-hidden="true">
          <rect width="16" height="12" rx="2" class="swatch-area" />
          <line x1="0" x2="16" y1="6" y2="6" class="swatch-line" />
        </svg>
        {label} <b>{formatCount(values[at] ?? 0)}</b>
      </span>
    ))}
    <span class="legend-moment">{moment ?? "Now"}</span>
  </div>
)
