import { to } from "../data/route.ts"
import { type Hours, ranges } from "./ranges.ts"

/** Chooses how far back the plots reach. */
export const RangePicker = ({ current }: { readonly current: Hours }) => (
  <nav class="segments" aria-label="Range of the plots">
    {ranges.map(({ hours, label }) => (
      <a key={hours} href={to([], { hours })} aria-current={hours === current ? "true" : undefined}>{label}</a>
    ))}
  </nav>
)
