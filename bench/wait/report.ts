/**
 * The report of the waiting benchmark, as a table and as JSON.
 */
import { align, type Machine } from "../shared/table.ts"

export interface WaitReport {
  readonly machine: Machine
  readonly command: string
  readonly waiters: number
  /** Changes a second while the waiters wait. */
  readonly changesPerSecond: number
  /** From the acknowledged commit to the response, in milliseconds. */
  readonly latency: { readonly count: number; readonly p50: number; readonly p99: number; readonly max: number }
  /** Changes that no waiter was told of. */
  readonly missed: number
  /** Statements a second of the gateway while nothing changes, for each number of waiters. */
  readonly statements: ReadonlyArray<{ readonly waiters: number; readonly perSecond: number }>
  /** KiB for each waiter with its connection. */
  readonly memory: { readonly rss: number; readonly heap: number }
  /** Throughput of single reads beside the waiters, as a ratio to that without: of each round, and their median. */
  readonly reads: { readonly rounds: ReadonlyArray<number>; readonly ratio: number }
}

/** The goals that a report misses. */
export const missedGoals = ({ latency, missed, reads, statements }: WaitReport): ReadonlyArray<string> => {
  const busy = statements.filter(({ waiters }) => waiters > 0).map(({ perSecond }) => perSecond)
  return [
    ...latency.p99 <= 150 ? [] : [`commit to response p99 is ${latency.p99.toFixed(0)} ms; the goal is 150`],
    ...missed === 0 ? [] : [`${missed} changes reached no waiter`],
    ...Math.max(...busy) <= 1.1 * Math.min(...busy) ? [] : ["the statements grow with the waiters"],
    ...reads.ratio >= 0.9
      ? []
      : [`reads beside the waiters are ${reads.ratio.toFixed(2)} of those without; the goal is 0.9`]
  ]
}

export const toJson = (report: WaitReport): string => `${JSON.stringify(report, null, 2)}\n`

export const toTable = (report: WaitReport): string => {
  const { changesPerSecond, latency, machine: { cpu, cpus, node }, memory, missed, reads, statements, waiters } = report
  const goals = missedGoals(report)
  return [
    align([
      ["waiters", "statements/s"],
      ...statements.map(({ perSecond, waiters }) => [String(waiters), perSecond.toFixed(1)])
    ]),
    "",
    `Commit to response, ${waiters} waiters, ${changesPerSecond} changes a second: p50 ${
      latency.p50.toFixed(0)
    } ms, p99 ${latency.p99.toFixed(0)} ms, longest ${
      latency.max.toFixed(0)
    } ms, of ${latency.count} changes; ${missed} missed.`,
    `Memory a waiter, with its connection: ${memory.rss.toFixed(1)} KiB resident, ${
      memory.heap.toFixed(1)
    } KiB of heap.`,
    `Single reads beside the waiters: ${reads.ratio.toFixed(2)} of those without (rounds: ${
      reads.rounds.map((ratio) => ratio.toFixed(2)).join(", ")
    }).`,
    goals.length === 0 ? "All goals hold." : `Missed goals: ${goals.join("; ")}.`,
    `${report.command}; ${cpus} × ${cpu}, Node ${node}.`,
    ""
  ].join("\n")
}
