/**
 * The report of a benchmark, as a table and as JSON.
 */
import * as os from "node:os"
import type { Comparison } from "./measure.ts"

export interface Report {
  readonly comparisons: ReadonlyArray<Comparison>
  /** MiB, by process. */
  readonly peakMemory: Readonly<Record<string, number>>
}

/** The errors that make a run invalid: responses other than 200. */
export const errorsOf = ({ comparisons }: Report): ReadonlyArray<string> =>
  comparisons.flatMap(({ name, targets }) =>
    targets.flatMap((target) =>
      target.errors === 0 ? [] : [`${name}, ${target.name}: ${target.errors} errors, the first: ${target.firstError}`]
    )
  )

export const machine = () => ({ node: process.version, cpu: os.cpus()[0]?.model ?? "unknown", cpus: os.cpus().length })

export const toJson = (report: Report): string => `${JSON.stringify({ ...machine(), ...report }, null, 2)}\n`

const requirement = ({ atLeast, atMost, holds }: Comparison): string =>
  atLeast === null && atMost === null
    ? ""
    : `${atLeast === null ? `at most ${atMost}` : `at least ${atLeast}`}: ${holds ? "holds" : "FAILS"}`

const header = [
  "",
  "",
  "requests/s",
  "p50 ms",
  "p99 ms",
  "server us",
  "database us",
  "errors",
  "ratio",
  "required"
]

const rowsOf = (comparison: Comparison): ReadonlyArray<ReadonlyArray<string>> =>
  comparison.targets.map((target, index) => [
    index === 0 ? comparison.name : "",
    target.name,
    target.requestsPerSecond.toFixed(0),
    target.p50.toFixed(2),
    target.p99.toFixed(2),
    target.serverCpu.toFixed(0),
    target.databaseCpu.toFixed(0),
    String(target.errors),
    ...index === 0 ? [comparison.ratio.toFixed(2), requirement(comparison)] : ["", ""]
  ])

/** Aligns the columns of a table. The first row is the header; numbers align to the right. */
export const align = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const columns = rows[0]!.map((_, column) => ({
    width: Math.max(...rows.map((row) => row[column]!.length)),
    isNumeric: rows.slice(1).every((row) => /^[\d.-]*$/.test(row[column]!))
  }))
  return rows.map((row) =>
    columns.map(({ isNumeric, width }, column) => isNumeric ? row[column]!.padStart(width) : row[column]!.padEnd(width))
      .join("  ").trimEnd()
  ).join("\n")
}

export const toTable = (report: Report): string => {
  const { cpu, cpus, node } = machine()
  const memory = Object.entries(report.peakMemory).map(([name, mib]) => `${name} ${mib.toFixed(0)} MiB`).join(", ")
  return `${align([header, ...report.comparisons.flatMap(rowsOf)])}\n\n`
    + `server us, database us: CPU time a request.\nPeak memory: ${memory}. ${cpus} × ${cpu}, Node ${node}.\n`
}
