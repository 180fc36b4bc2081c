/** The report of the submission benchmark, as a table and as JSON. */
import { align, type Machine, machine } from "../shared/report.ts"
import { median, percentile } from "../shared/statistics.ts"
import { baseline, distance } from "./config.ts"
import type { Latency, Throughput } from "./rounds.ts"

/** A contestant and its rounds, in order. */
export interface Rounds<Round> {
  readonly name: string
  readonly rounds: ReadonlyArray<Round>
}

interface SubmissionRounds {
  /** With a provider that answers at once. */
  readonly throughput: ReadonlyArray<Rounds<Throughput>>
  /** With a distant provider. */
  readonly distant: ReadonlyArray<Rounds<Throughput>>
  readonly latency: ReadonlyArray<Rounds<Latency>>
}

/** Medians over the rounds. CPU times in microseconds an operation. */
export interface ThroughputRow {
  readonly name: string
  readonly operationsPerSecond: number
  /** To the baseline in the same round; null if the baseline was not measured. */
  readonly ratio: number | null
  readonly workerCpu: number
  readonly databaseCpu: number
  readonly sandboxCpu: number
  /** Bytes of write-ahead log an operation. */
  readonly wal: number
}

/** Medians over the rounds, and the longest of all; in milliseconds. */
export interface LatencyRow {
  readonly name: string
  readonly p50: number
  readonly p50Ratio: number | null
  readonly p99: number
  readonly p99Ratio: number | null
  readonly longest: number
}

export interface SubmissionReport {
  readonly machine: Machine
  readonly rounds: number
  readonly throughput: ReadonlyArray<ThroughputRow>
  readonly distant: ReadonlyArray<ThroughputRow>
  readonly latency: ReadonlyArray<LatencyRow>
  /** Milliseconds that a commit took before the rounds. */
  readonly commit: { readonly median: number; readonly longest: number }
  readonly errors: ReadonlyArray<string>
}

/** The median over the rounds of the ratio to the figure of the baseline in the same round. */
export const ratioTo = <Round>(
  contestants: ReadonlyArray<Rounds<Round>>,
  rounds: ReadonlyArray<Round>,
  figure: (round: Round) => number
): number | null => {
  const first = contestants.find(({ name }) => name === baseline)
  return first === undefined ? null : median(rounds.map((round, index) => figure(round) / figure(first.rounds[index]!)))
}

const summarizeThroughput = (contestants: ReadonlyArray<Rounds<Throughput>>) =>
  contestants.map(({ name, rounds }): ThroughputRow => {
    const typical = (figure: (round: Throughput) => number) => median(rounds.map(figure))
    return {
      name,
      operationsPerSecond: typical((round) => round.operationsPerSecond),
      ratio: ratioTo(contestants, rounds, (round) => round.operationsPerSecond),
      workerCpu: typical((round) => round.workerCpu),
      databaseCpu: typical((round) => round.databaseCpu),
      sandboxCpu: typical((round) => round.sandboxCpu),
      wal: typical((round) => round.wal)
    }
  })

const fractionOf = (fraction: number) => ({ latencies }: Latency) =>
  percentile([...latencies].sort((a, b) => a - b), fraction)

const summarizeLatency = (contestants: ReadonlyArray<Rounds<Latency>>) =>
  contestants.map(({ name, rounds }): LatencyRow => ({
    name,
    p50: median(rounds.map(fractionOf(0.5))),
    p50Ratio: ratioTo(contestants, rounds, fractionOf(0.5)),
    p99: median(rounds.map(fractionOf(0.99))),
    p99Ratio: ratioTo(contestants, rounds, fractionOf(0.99)),
    longest: Math.max(...rounds.map(fractionOf(1)))
  }))

export const summarize = ({ distant, latency, throughput }: SubmissionRounds): SubmissionReport => {
  const contestants = [...throughput, ...distant, ...latency]
  const rounds = contestants.flatMap((contestant): ReadonlyArray<Throughput | Latency> => contestant.rounds)
  const commits = rounds.map(({ commit }) => commit)
  return {
    machine: machine(),
    rounds: Math.max(...contestants.map((contestant) => contestant.rounds.length)),
    throughput: summarizeThroughput(throughput),
    distant: summarizeThroughput(distant),
    latency: summarizeLatency(latency),
    commit: { median: median(commits), longest: Math.max(...commits) },
    errors: rounds.flatMap(({ errors }) => errors)
  }
}

const shownRatio = (ratio: number | null) => ratio?.toFixed(2) ?? "-"

const throughputTable = (title: string, rows: ReadonlyArray<ThroughputRow>): string =>
  align([
    [title, "operations/s", "ratio", "worker us", "database us", "sandbox us", "WAL bytes"],
    ...rows.map((row) => [
      row.name,
      row.operationsPerSecond.toFixed(0),
      shownRatio(row.ratio),
      row.workerCpu.toFixed(0),
      row.databaseCpu.toFixed(0),
      row.sandboxCpu.toFixed(0),
      row.wal.toFixed(0)
    ])
  ])

const latencyTable = (title: string, rows: ReadonlyArray<LatencyRow>): string =>
  align([
    [title, "p50 ms", "ratio", "p99 ms", "ratio", "longest ms"],
    ...rows.map(({ longest, name, p50, p50Ratio, p99, p99Ratio }) => [
      name,
      p50.toFixed(2),
      shownRatio(p50Ratio),
      p99.toFixed(2),
      shownRatio(p99Ratio),
      longest.toFixed(2)
    ])
  ])

export const toTable = ({ commit, distant, latency, machine, throughput }: SubmissionReport): string => {
  const { cpu, cpus, node } = machine
  return [
    ...throughput.length === 0 ? [] : [throughputTable("provider that answers at once", throughput)],
    ...distant.length === 0 ? [] : [throughputTable(`provider that takes ${distance} ms`, distant)],
    ...latency.length === 0 ? [] : [latencyTable("from accept to send", latency)],
    `ratio: to ${baseline}, in the same round. worker us, database us, sandbox us: CPU time an operation. WAL bytes: `
    + "write-ahead log an operation.\n"
    + `A commit took ${commit.median.toFixed(2)} ms; in the worst of the rounds ${commit.longest.toFixed(2)} ms.\n`
    + `${cpus} × ${cpu}, Node ${node}.\n`
  ].join("\n\n")
}
