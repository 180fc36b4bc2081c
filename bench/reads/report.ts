/** The report of the benchmark of reads, as a table and as JSON. */
import { align, type Machine } from "../shared/report.ts"
import type { Comparison } from "./compare.ts"
import type { GoalResult } from "./goals.ts"

export interface Report {
  readonly machine: Machine
  /** What ran: the shipped command, the sources or another file. */
  readonly command: string
  readonly operations: number
  readonly connections: number
  readonly rounds: number
  readonly comparisons: ReadonlyArray<Comparison>
}

/** The errors that make a run invalid: responses other than 200. */
export const errorsOf = ({ comparisons }: Report): ReadonlyArray<string> =>
  comparisons.flatMap(({ name, targets }) =>
    targets.flatMap((target) =>
      target.errors === 0 ? [] : [`${name}, ${target.name}: ${target.errors} errors, the first: ${target.firstError}`]
    )
  )

/** The goals that were measured and missed. */
export const missedGoals = ({ comparisons }: Report): ReadonlyArray<GoalResult> =>
  comparisons.flatMap(({ goals }) => goals.filter(({ holds }) => holds === false))

const header = [
  "",
  "requests/s",
  "p50 ms",
  "p99 ms",
  "server us",
  "database us",
  "GC us",
  "peak MiB",
  "errors",
  "ratio",
  "p99 ratio"
]

const tableOf = ({ ratios, targets }: Comparison): string =>
  align([
    header,
    ...targets.map((target) => {
      const ratio = ratios.find(({ to }) => to === target.name)
      return [
        target.name,
        target.requestsPerSecond.toFixed(0),
        target.p50.toFixed(2),
        target.p99.toFixed(2),
        target.serverCpu.toFixed(0),
        target.databaseCpu.toFixed(0),
        target.garbage?.toFixed(1) ?? "",
        target.peakMemory.toFixed(0),
        String(target.errors),
        ratio?.requests.toFixed(2) ?? "",
        ratio?.p99.toFixed(2) ?? ""
      ]
    })
  ])

const lineOf = ({ goal, holds, value }: GoalResult): string =>
  value === null || holds === null
    ? `  ${goal}: not measured`
    : `  ${goal}: ${value.toFixed(value < 100 ? 2 : 0)}, ${holds ? "holds" : "FAILS"}`

const sectionOf = (comparison: Comparison): string =>
  [comparison.name, "", tableOf(comparison), "", ...comparison.goals.map(lineOf), ""].join("\n")

export const toTable = (report: Report): string => {
  const { cpu, cpus, memoryGiB, node } = report.machine
  return [
    ...report.comparisons.map(sectionOf),
    "Ratios: the first server's figure, divided by that of the row; medians of the rounds. Server, database: CPU time a",
    "request. GC: garbage collection a request, from a round of its own.",
    `${report.command}; ${report.operations} operations, ${report.connections} connections, ${report.rounds} rounds. `
    + `${cpus} × ${cpu}, ${memoryGiB} GiB, Node ${node}.`,
    ""
  ].join("\n")
}
