/**
 * The report of the memory benchmark, as a table and as JSON.
 */
import { align, type Machine } from "../shared/table.ts"
import type { Growth, Sample } from "./growth.ts"
import type { Progress } from "./mixedLoad.ts"

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

export const toJson = (report: MemoryReport): string =>
  `${JSON.stringify({ ...report, samples: thinOut(report.samples, 300) }, null, 2)}\n`

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
