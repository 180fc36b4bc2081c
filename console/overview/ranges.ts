/** Ranges of time that the overview can show. */
export const ranges = [
  { hours: "1", label: "1 h" },
  { hours: "3", label: "3 h" },
  { hours: "24", label: "24 h" },
  { hours: "168", label: "7 d" }
] as const

export type Hours = typeof ranges[number]["hours"]

/** The intervals of the range's points, in a unit. */
export const perInterval = (hours: Hours): string => Number(hours) <= 3 ? "per minute" : "per hour"
