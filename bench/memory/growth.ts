/**
 * Whether the memory of a process grows under a steady load.
 */
import { median, slope } from "../shared/statistics.ts"

export interface Sample {
  /** Since the start of the load. */
  readonly seconds: number
  readonly requests: number
  /** MiB. */
  readonly rss: number
  readonly heapUsed: number
}

export interface Growth {
  /** MiB from the first fifth of the samples after the warm-up to the last fifth: of the median of resident memory. */
  readonly rss: number
  /** The same, of the least used heap, which is closest to the live data. */
  readonly heap: number
  /** MiB for each million requests: the slope of the line with the least squared error. */
  readonly rssSlope: number
  readonly heapSlope: number
}

/** Fewer samples show no trend. */
const fewest = 30

/** Growth after the warm-up; null if too few samples follow it. */
export const growthOf = (samples: ReadonlyArray<Sample>, warmUpSeconds: number): Growth | null => {
  const steady = samples.filter(({ seconds }) => seconds >= warmUpSeconds)
  if (steady.length < fewest) return null
  const fifth = Math.floor(steady.length / 5)
  const [first, last] = [steady.slice(0, fifth), steady.slice(-fifth)]
  const slopeOf = (of: (sample: Sample) => number) =>
    slope(steady.map((sample) => [sample.requests / 1_000_000, of(sample)]))
  const least = (part: ReadonlyArray<Sample>) => Math.min(...part.map(({ heapUsed }) => heapUsed))
  return {
    rss: median(last.map(({ rss }) => rss)) - median(first.map(({ rss }) => rss)),
    heap: least(last) - least(first),
    rssSlope: slopeOf(({ rss }) => rss),
    heapSlope: slopeOf(({ heapUsed }) => heapUsed)
  }
}
