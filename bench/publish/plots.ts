/** The plots of the documents. */
import type { Kind } from "../growth/calls.ts"
import { goal, type GrowthReport, type LedgerCosts } from "../growth/report.ts"
import type { MemoryReport } from "../memory/report.ts"
import type { Comparison } from "../reads/compare.ts"
import { peerNames } from "../reads/contestants.ts"
import type { Report } from "../reads/report.ts"
import { baseline, distance } from "../submission/config.ts"
import type { SubmissionReport, ThroughputRow } from "../submission/report.ts"
import { type Bar, drawBars, type Panel } from "./bars.ts"
import { drawLines } from "./lines.ts"

const shown = ["read", "list", "healthz"]

const comparisonsOf = (report: Report): ReadonlyArray<Comparison> =>
  report.comparisons.filter(({ key }) => shown.includes(key))

/** Requests per second of each server, relative to the same peer. */
const ratioBars = (comparison: Comparison): ReadonlyArray<Bar> => {
  const ratioOf = (name: string) => comparison.ratios.find(({ to }) => to === name)
  const toBase = ratioOf(peerNames.fastifyPg)?.requests ?? 1
  return comparison.targets.map(({ name }, index) => {
    // The gateway is `toBase` times as fast as the base, and `requests` times as fast as this server.
    const value = index === 0 ? toBase : toBase / ratioOf(name)!.requests
    return { label: name, value, shown: value.toFixed(2), isFirst: index === 0 }
  })
}

export const ratiosPlot = (report: Report): string =>
  drawBars(
    "Requests per second of the gateway and its peers, relative to Fastify and pg",
    comparisonsOf(report).map((comparison): Panel => ({
      title: comparison.name,
      unit: `requests per second, ${peerNames.fastifyPg} = 1`,
      bars: ratioBars(comparison)
    }))
  )

export const memoryPlot = ({ samples }: MemoryReport): string => {
  const points = (of: (sample: MemoryReport["samples"][number]) => number) =>
    samples.map((sample) => [sample.requests / 1_000_000, of(sample)] as const)
  return drawLines(
    "Memory of the gateway under a mixed load",
    { x: "million requests", y: "MiB" },
    [
      { label: "resident memory", points: points(({ rss }) => rss), isFirst: true },
      { label: "used heap", points: points(({ heapUsed }) => heapUsed), isFirst: false }
    ]
  )
}

const throughputPanel = (
  title: string,
  unit: string,
  rows: ReadonlyArray<ThroughputRow>,
  figure: (row: ThroughputRow) => number
): Panel => ({
  title,
  unit,
  bars: rows.map((row): Bar => ({
    label: row.name,
    value: figure(row),
    shown: figure(row).toFixed(0),
    isFirst: row.name === baseline
  }))
})

export const submissionPlot = ({ distant, throughput }: SubmissionReport): string =>
  drawBars(
    "Operations per second of the worker and its peers",
    [
      ["provider that answers at once", throughput] as const,
      [`provider that takes ${distance} ms`, distant] as const
    ].map(([title, rows]) =>
      throughputPanel(title, "operations per second", rows, ({ operationsPerSecond }) => operationsPerSecond)
    )
  )

export const submissionCpuPlot = ({ throughput }: SubmissionReport): string =>
  drawBars("CPU time of an operation, of the workers and of PostgreSQL", [
    throughputPanel("workers", "CPU time of the workers for an operation, µs", throughput, (row) => row.workerCpu),
    throughputPanel("PostgreSQL", "CPU time of PostgreSQL for an operation, µs", throughput, (row) => row.databaseCpu)
  ])
/** The costs of each ledger but the first, relative to the first, and those while the snapshot was open. */
export const growthPlot = ({ grown, kinds, snapshot }: GrowthReport): string => {
  const panel = (title: string, unit: string, { costs }: LedgerCosts): Panel => ({
    title,
    unit,
    bars: (Object.keys(kinds) as ReadonlyArray<Kind>).map((kind): Bar => ({
      label: kinds[kind],
      value: costs[kind].ratio,
      shown: costs[kind].ratio.toFixed(2),
      isFirst: costs[kind].ratio > goal
    }))
  })
  const base = grown[0]!.operations.toLocaleString("en")
  return drawBars(
    "Database CPU of each call as the ledger grows",
    [
      ...grown.slice(1).map((ledger) =>
        panel(`${ledger.operations.toLocaleString("en")} operations`, `CPU time, ${base} operations = 1`, ledger)
      ),
      panel(`A snapshot open for ${snapshot.seconds} seconds`, "CPU time, before = 1", snapshot.phases[1]!)
    ]
  )
}
