/** How the clock of a process compares with the clock of the database, which sets the times of the ledger. */

/** Milliseconds. Operators are warned above this difference. */
export const warnedSkew = 2000

/** Milliseconds. A worker sends nothing unless the difference is proven to be no greater. */
export const longestSkew = 5000

/** What a comparison proves, in milliseconds. Positive: the clock of the process is ahead. */
export interface ClockSkew {
  /** The smallest possible difference. 0: the clocks may be equal. */
  readonly proven: number
  /** The largest possible difference, without a sign. */
  readonly most: number
}

/**
 * Compares the clocks. The database showed `first` and then `last` after the process showed `before`, and before it showed `after`, all
 * in milliseconds. So a slow answer makes the difference uncertain, and never proves one.
 */
export const compareClocks = (before: number, first: number, last: number, after: number): ClockSkew => {
  const [low, high] = [before - first, after - last]
  return {
    proven: low > 0 && high > 0 ? Math.min(low, high) : low < 0 && high < 0 ? Math.max(low, high) : 0,
    most: Math.max(Math.abs(low), Math.abs(high))
  }
}

const seconds = (millis: number) => `${(Math.abs(millis) / 1000).toFixed(1)} s`

/** For operators: `60.0 s behind`. */
export const formatSkew = (proven: number): string => `${seconds(proven)} ${proven < 0 ? "behind" : "ahead"}`

/** For operators: `60.0 s behind the clock of the database`. */
export const describeSkew = (proven: number): string =>
  `${formatSkew(proven)}${proven < 0 ? "" : " of"} the clock of the database`

/** Why a worker must not send by this clock. Null: it may. */
export const whySkewed = ({ most, proven }: ClockSkew): string | null => {
  if (most <= longestSkew) return null
  return Math.abs(proven) > longestSkew
    ? `the clock of this worker is ${describeSkew(proven)}`
    : `the clock of this worker may differ from the clock of the database by up to ${
      seconds(most)
    }, because the answers `
      + "of the database are slow"
}
