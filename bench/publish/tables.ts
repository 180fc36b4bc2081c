/** The tables of the documents, as Markdown. */
import type { Kind } from "../growth/calls.ts"
import { goal, type GrowthReport, type LedgerCosts } from "../growth/report.ts"
import { grows, type MemoryReport, thinOut } from "../memory/report.ts"
import type { Comparison } from "../reads/compare.ts"
import type { Report } from "../reads/report.ts"
import type { Machine } from "../shared/report.ts"
import { distance } from "../submission/config.ts"
import type { LatencyRow, SubmissionReport, ThroughputRow } from "../submission/report.ts"

const row = (cells: ReadonlyArray<string>) => `| ${cells.join(" | ")} |`

export const table = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>) =>
  [row(header), row(header.map((_, index) => index === 0 ? "---" : "---:")), ...rows.map(row)].join("\n")

const whole = (value: number) => Math.round(value).toLocaleString("en")
const missing = "–"

const ratioTo = (comparison: Comparison, name: string): string =>
  comparison.ratios.find(({ to }) => to === name)?.requests.toFixed(2) ?? missing

export const machineLine = ({ cpu, cpus, memoryGiB, node }: Machine): string =>
  `${cpus} cores (${cpu}), ${memoryGiB} GiB, Node ${node.slice(1)}`

/** Each server of a scenario. */
const scenarioTable = (comparison: Comparison): string =>
  table(
    [comparison.name, "Requests/s", "p50 ms", "p99 ms", "CPU µs", "PostgreSQL CPU µs", "GC µs", "Peak MiB", "Ratio"],
    comparison.targets.map((target, index) => [
      target.name,
      whole(target.requestsPerSecond),
      target.p50.toFixed(1),
      target.p99.toFixed(1),
      whole(target.serverCpu),
      whole(target.databaseCpu),
      target.garbage?.toFixed(1) ?? missing,
      whole(target.peakMemory),
      index === 0 ? "" : ratioTo(comparison, target.name)
    ])
  )

export const readsTables = (report: Report): string =>
  [
    `${report.operations.toLocaleString("en")} operations, ${report.connections} connections, medians of `
    + `${report.rounds} rounds; ${machineLine(report.machine)}.`,
    ...report.comparisons.map(scenarioTable)
  ].join("\n\n")

export const memoryTable = (report: MemoryReport): string => {
  const { growth, machine, peakMemory, progress, samples, tolerance, warmUpSeconds } = report
  return [
    table(
      ["Requests", "Resident MiB", "Used heap MiB"],
      thinOut(samples, 8).map(({ heapUsed, requests, rss }) => [whole(requests), rss.toFixed(0), heapUsed.toFixed(0)])
    ),
    growth === null
      ? "The run was too short to show a trend."
      : `Growth after the first ${warmUpSeconds} s: ${growth.rss.toFixed(1)} MiB of resident memory, `
        + `${growth.heap.toFixed(1)} MiB of the least used heap. ${tolerance} MiB are allowed, so the run `
        + `${grows(report) ? "fails" : "passes"}. The peak was ${whole(peakMemory)} MiB, after ${
          whole(progress.requests)
        } `
        + `requests on ${machineLine(machine)}.`
  ].join("\n\n")
}

const shownRatio = (ratio: number | null) => ratio?.toFixed(2) ?? missing

const throughputTable = (title: string, rows: ReadonlyArray<ThroughputRow>): string =>
  table(
    [title, "Operations/s", "Ratio", "Worker CPU µs", "PostgreSQL CPU µs", "Sandbox CPU µs", "WAL bytes"],
    rows.map(({ databaseCpu, name, operationsPerSecond, ratio, sandboxCpu, wal, workerCpu }) => [
      name,
      whole(operationsPerSecond),
      shownRatio(ratio),
      whole(workerCpu),
      whole(databaseCpu),
      whole(sandboxCpu),
      whole(wal)
    ])
  )

const latencyTable = (rows: ReadonlyArray<LatencyRow>): string =>
  table(
    ["From acceptance to request", "p50 ms", "Ratio", "p99 ms", "Ratio", "Longest ms"],
    rows.map(({ longest, name, p50, p50Ratio, p99, p99Ratio }) => [
      name,
      p50.toFixed(1),
      shownRatio(p50Ratio),
      p99.toFixed(1),
      shownRatio(p99Ratio),
      longest.toFixed(1)
    ])
  )

/** The measurements that were made. */
export const submissionTables = ({ commit, distant, latency, machine, rounds, throughput }: SubmissionReport): string =>
  [
    `${rounds === 1 ? "One round" : `Medians of ${rounds} rounds`} on ${machineLine(machine)}. A commit took ${
      commit.median.toFixed(2)
    } ms.`,
    ...throughput.length === 0 ? [] : [throughputTable("Provider that answers at once", throughput)],
    ...distant.length === 0 ? [] : [throughputTable(`Provider that takes ${distance} ms`, distant)],
    ...latency.length === 0 ? [] : [latencyTable(latency)]
  ].join("\n\n")
const bold = (ratio: number) => ratio > goal ? `**${ratio.toFixed(2)}**` : ratio.toFixed(2)

/** Costs of the calls on ledgers of several sizes, and while a snapshot was open. Ratios above the goal are bold. */
export const growthTables = (report: GrowthReport): string => {
  const { grown, kinds, machine, operations, rounds, sharedBuffers, snapshot } = report
  const [before, open, ended, vacuumed] = snapshot.phases as readonly [
    LedgerCosts,
    LedgerCosts,
    LedgerCosts,
    LedgerCosts
  ]
  const largest = grown.at(-1)!
  const all = Object.keys(kinds) as ReadonlyArray<Kind>
  const pages = ({ costs }: LedgerCosts, kind: Kind) => `${whole(costs[kind].hits)} + ${costs[kind].misses.toFixed(1)}`
  const names = grown.map(({ operations }) => operations.toLocaleString("en"))
  return [
    table(
      ["Database CPU of a call", `${names[0]} µs`, ...names.slice(1).map((name) => `× at ${name}`), "pages", "pages"],
      all.map((kind) => [
        kinds[kind],
        whole(grown[0]!.costs[kind].cpu),
        ...grown.slice(1).map(({ costs }) => bold(costs[kind].ratio)),
        pages(grown[0]!, kind),
        pages(largest, kind)
      ])
    ),
    `Pages of a call on the smallest and on the largest ledger: found in the buffers + not found. The largest ledger takes ${
      (largest.bytes / 1e9).toFixed(0)
    } GB, and the buffers ${sharedBuffers}${report.warm ? ", into which the ledgers were read before" : ""}.`,
    table(
      [
        `A snapshot open for ${snapshot.seconds} s at ${snapshot.rate} operations/s`,
        "before µs",
        "× while open",
        "× after its end",
        "× after VACUUM",
        "pages before",
        "pages while open"
      ],
      all.map((kind) => [
        kinds[kind],
        whole(before.costs[kind].cpu),
        bold(open.costs[kind].ratio),
        bold(ended.costs[kind].ratio),
        bold(vacuumed.costs[kind].ratio),
        whole(before.costs[kind].hits + before.costs[kind].misses),
        whole(open.costs[kind].hits + open.costs[kind].misses)
      ])
    ),
    `Medians of ${rounds} rounds of ${operations} operations; ${machineLine(machine)}. Ratios above ${goal} are bold.`
  ].join("\n\n")
}
