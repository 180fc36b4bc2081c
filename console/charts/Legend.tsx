import { formatCount } from "../data/format.ts"
import { Patterns, textures } from "./Patterns.tsx"
import type { Series } from "./series.ts"

/** How a plot draws its series. */
export type Kind = "area" | "line"

const Swatch = ({ id, kind, name }: { readonly id: string; readonly kind: Kind; readonly name: string }) => (
  <svg class={`series-${name}`} viewBox="0 0 16 12" width="16" height="12" aria-hidden="true">
    {kind === "area" && (
      <>
        <Patterns id={`${id}-legend`} />
        <rect width="16" height="12" rx="2" class="area" />
        {textures.includes(name) && <rect width="16" height="12" rx="2" fill={`url(#${id}-legend-${name})`} />}
      </>
    )}
    {kind === "line" && <line x1="0" x2="16" y1="6" y2="6" class="line" />}
  </svg>
)

/** Names of the series, with their values now or at the cursor. */
export const Legend = ({ at, id, kind, series }: {
  readonly series: ReadonlyArray<Series>
  readonly at: number
  readonly kind: Kind
  readonly id: string
}) => (
  <div class="legend">
    {series.map(({ label, name, values }) => (
      <span key={name} class="legend-entry">
        <Swatch name={name} kind={kind} id={id} />
        {label} <b>{formatCount(values[at] ?? 0)}</b>
      </span>
    ))}
  </div>
)
