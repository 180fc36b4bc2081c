/**
 * The report of the submission benchmark, as a table and as JSON.
 */
import { median } from "../shared/statistics.ts"
import { align, machine } from "../shared/table.ts"
import { distance } from "./config.ts"
import type { Latency, Throughput } from "./rounds.ts"

/** A contestant and its rounds, in order. */
export interface Rounds<Round> {
  readonly name: string
  readonly rounds: ReadonlyArray<Round>
}

/** Ratios compare each contestant with the first of its list. */
export interface SubmissionReport {
  /** With a provider that answers at once. */
  readonly throughput: ReadonlyArray<Rounds<Throughput>>
  /** With a distant provider. */
  readonly distant: ReadonlyArray<Rounds<Throughput>>
  readonly latency: ReadonlyArray<Rounds<Latency>>
}

export const errorsOf = ({ distant, latency, throughput }: SubmissionReport): ReadonlyArray<string> =>
  [...throughput, ...distant, ...latency].flatMap(({ rounds }) => rounds.flatMap(({ errors }) => errors))

/** The median over the rounds of the ratio to the first contestant's figure in the same round. */
const ratioTo = <Round>(
  first: ReadonlyArray<Round>,
  rounds: ReadonlyArray<Round>,
  figure: (round: Round) => number
): number => median(rounds.map((round, index) => figure(round) / figure(first[index]!)))

/** Milliseconds that commits took before the rounds. */
const summarizeCommits = ({ distant, latency, throughput }: SubmissionReport) => {
  const commits = [...throughput, ...distant, ...latency].flatMap(({ rounds }) => rounds.map(({ commit }) => commit))
  return { median: median(commits), longest: Math.max(...commits) }
}

/** Medians over the rounds. CPU times in microseconds an operation. */
const summarizeThroughput = (contestants: ReadonlyArray<Rounds<Throughput>>) =>
  contestants.map(({ name, rounds }) => ({
    name,
    operationsPerSecond: median(rounds.map((round) => round.operationsPerSecond)),
    ratio: ratioTo(contestants[0]!.rounds, rounds, (round) => round.operationsPerSecond),
    workerCpu: median(rounds.map((round) => round.workerCpu)),
    databaseCpu: median(rounds.map((round) => round.databaseCpu)),
    sandboxCpu: median(rounds.map((round) => round.sandboxCpu))
  }))

const percentile = (sorted: ReadonlyArray<number>, fraction: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN

const fractionOf = (fraction: number) => ({ latencies }: Latency) =>
  percentile([...latencies].sort((a, b) => a - b), fraction)

/** Medians over the rounds, and the longest of all; in milliseconds. */
const summarizeLatency = (contestants: ReadonlyArray<Rounds<Latency>>) =>
  contestants.map(({ name, rounds }) => ({
    name,
    p50: median(rounds.map(fractionOf(0.5))),
    p50Ratio: ratioTo(contestants[0]!.rounds, rounds, fractionOf(0.5)),
    p99: median(rounds.map(fractionOf(0.99))),
    p99Ratio: ratioTo(contestants[0]!.rounds, rounds, fractionOf(0.99)),
    longest: Math.max(...rounds.map(fractionOf(1)))
  }))

export const toJson = (report: SubmissionReport): string => {
  const found = {
    ...machine(),
    throughput: summarizeThroughput(report.throughput),
    distant: summarizeThroughput(report.distant),
    latency: summarizeLatency(report.latency),
    commit: summarizeCommits(report),
    errors: errorsOf(report)
  }
  return `${JSON.stringify(found, null, 2)}\n`
}

const throughputTable = (title: string, contestants: ReadonlyArray<Rounds<Throughput>>): string =>
  align([
    [title, "operations/s", "ratio", "worker us", "database us", "sandbox us"],
    ...summarizeThroughput(contestants).map((row) => [
      row.name,
      row.operationsPerSecond.toFixed(0),
      row.ratio.toFixed(2),
      row.workerCpu.toFixed(0),
      row.databaseCpu.toFixed(0),
      row.sandboxCpu.toFixed(0)
    ])
  ])

const latencyTable = (title: string, contestants: ReadonlyArray<Rounds<Latency>>): string =>
  align([
    [title, "p50 ms", "ratio", "p99 ms", "ratio", "longest ms"],
    ...summarizeLatency(contestants).map(({ longest, name, p50, p50Ratio, p99, p99Ratio }) => [
      name,
      p50.toFixed(2),
      p50Ratio.toFixed(2),
      p99.toFixed(2),
      p99Ratio.toFixed(2),
      longest.toFixed(2)
    ])
  ])

export const toTable = (report: SubmissionReport): string => {
  const { distant, latency, throughput } = report
  const { cpu, cpus, node } = machine()
  const commit = summarizeCommits(report)
  return [
    throughputTable("provider that answers at once", throughput),
    throughputTable(`provider that takes ${distance} ms`, distant),
    latencyTable("from accept to send", latency),
    "ratio: to the first row of the table, in the same round. worker us, database us, sandbox us: CPU time an operation.\n"
    + `A commit took ${commit.median.toFixed(2)} ms; in the worst of the rounds ${commit.longest.toFixed(2)} ms.\n`
    + `${cpus} × ${cpu}, Node ${node}.\n`
  ].join("\n\n")
}
