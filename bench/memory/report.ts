/** The report of the memory benchmark: whether the memory of a process grows under a steady load. */
import { align, type Machine } from "../shared/report.ts"
import { median, slope } from "../shared/statistics.ts"
import type { Progress } from "./mixedLoad.ts"

export interface Sample {
  /** Since the start of the load. */
  readonly seconds: number
  readonly requests: number
  /** MiB. */
  readonly rss: number
  readonly heapUsed: number
}

interface Growth {
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

export interface MemoryReport {
  readonly machine: Machine
  readonly command: string
  readonly progress: Progress
  readonly samples: ReadonlyArray<Sample>
  /** Peak resident memory, in MiB. */
  readonly peakMemory: number
  readonly warmUpSeconds: number
  /** Null if the run was too short. */
  readonly growth: Growth | null
  /** The most growth in MiB that passes. */
  readonly tolerance: number
}

export const grows = ({ growth, tolerance }: MemoryReport): boolean =>
  growth !== null && (growth.rss > tolerance || growth.heap > tolerance)

/** Every nth, so that at most `most` remain. The last one is always there. */
export const thinOut = <A>(values: ReadonlyArray<A>, most: number): ReadonlyArray<A> => {
  const step = Math.ceil(values.length / most)
  return values.filter((_, index) => (values.length - 1 - index) % step === 0)
}

const verdictOf = (report: MemoryReport): string => {
  const { growth, tolerance, warmUpSeconds } = report
  if (growth === null) return `Too short to judge: fewer than 30 samples after the first ${warmUpSeconds} s.`
  const { heap, heapSlope, rss, rssSlope } = growth
  return [
    `After the first ${warmUpSeconds} s, RSS grew by ${rss.toFixed(1)} MiB and the least used heap by `
    + `${heap.toFixed(1)} MiB; ${tolerance} MiB pass: ${grows(report) ? "FAILS" : "holds"}.`,
    `Slopes a million requests: RSS ${rssSlope.toFixed(2)} MiB, used heap ${heapSlope.toFixed(2)} MiB.`
  ].join("\n")
}

export const toTable = (report: MemoryReport): string => {
  const { machine: { cpu, cpus, node }, peakMemory, progress, samples } = report
  return [
    align([
      ["seconds", "requests", "RSS MiB", "used heap MiB"],
      ...thinOut(samples, 20).map(({ heapUsed, requests, rss, seconds }) => [
        seconds.toFixed(0),
        String(requests),
        rss.toFixed(1),
        heapUsed.toFixed(1)
      ])
    ]),
    "",
    verdictOf(report),
    `${progress.requests} requests, peak ${
      peakMemory.toFixed(0)
    } MiB. ${report.command}; ${cpus} × ${cpu}, Node ${node}.`,
    ""
  ].join("\n")
}
