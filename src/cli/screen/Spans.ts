/**
 * Spans of time for people, relative to an instant.
 */
import type * as DateTime from "effect/DateTime"

const units = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]] as const

/** A span in its two largest units, such as `2h5m`. Shorter than a second, or negative: `0s`. */
export const formatSpan = (milliseconds: number): string => {
  let rest = Math.max(0, Math.floor(milliseconds / 1000))
  const parts = units.map(([unit, seconds]) => {
    const count = Math.floor(rest / seconds)
    rest -= count * seconds
    return { count, unit }
  })
  const first = parts.findIndex(({ count }) => count > 0)
  if (first === -1) return "0s"
  return parts.slice(first, first + 2).filter(({ count }) => count > 0).map(({ count, unit }) => `${count}${unit}`)
    .join("")
}

/** The time from one instant to another. */
export const spanBetween = (from: DateTime.Utc, to: DateTime.Utc): string =>
  formatSpan(to.epochMilliseconds - from.epochMilliseconds)

/** An instant relative to now: `in 12s`, `now` within a second, or `3m ago`. */
export const relativeTo = (now: DateTime.Utc, at: DateTime.Utc): string => {
  const ahead = at.epochMilliseconds - now.epochMilliseconds
  if (Math.abs(ahead) < 1000) return "now"
  return ahead > 0 ? `in ${formatSpan(ahead)}` : `${formatSpan(-ahead)} ago`
}
