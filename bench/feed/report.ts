/**
 * The report of the feed benchmark, as a table and as JSON.
 */
import { median } from "../shared/statistics.ts"
import { align, machine } from "../shared/table.ts"
import type { FeedRound } from "./rounds.ts"

/** A contestant and its rounds, in order. */
export interface FeedRounds {
  readonly name: string
  readonly rounds: ReadonlyArray<FeedRound>
}

/** Medians over the rounds. The ratio compares with the first contestant in the same round. */
const summarize = (contestants: ReadonlyArray<FeedRounds>) => {
  const first = contestants[0]!.rounds
  return contestants.map(({ name, rounds }) => {
    const medianOf = (figure: (round: FeedRound) => number) => median(rounds.map(figure))
    const ratioOf = (figure: (round: FeedRound) => number) =>
      median(rounds.map((round, index) => figure(round) / figure(first[index]!)))
    return {
      name,
      operationsPerSecond: medianOf((round) => round.operationsPerSecond),
      ratio: ratioOf((round) => round.operationsPerSecond),
      databaseCpu: medianOf((round) => round.databaseCpu),
      databaseCpuRatio: ratioOf((round) => round.databaseCpu),
      wal: medianOf((round) => round.wal),
      walRatio: ratioOf((round) => round.wal),
      changes: medianOf((round) => round.changes)
    }
  })
}

export const toJson = (contestants: ReadonlyArray<FeedRounds>): string =>
  `${JSON.stringify({ ...machine(), contestants: summarize(contestants), rounds: contestants }, null, 2)}\n`

export const toTable = (contestants: ReadonlyArray<FeedRounds>): string => {
  const { cpu, cpus, node } = machine()
  const rows = summarize(contestants).map((row) => [
    row.name,
    row.operationsPerSecond.toFixed(0),
    row.ratio.toFixed(3),
    row.databaseCpu.toFixed(0),
    row.databaseCpuRatio.toFixed(3),
    row.wal.toFixed(0),
    row.walRatio.toFixed(3),
    row.changes.toFixed(0)
  ])
  return [
    align([
      ["8 writers", "operations/s", "ratio", "database us", "ratio", "WAL bytes", "ratio", "changes read"],
      ...rows
    ]),
    "An operation is an acceptance and three transitions. ratio: to the first row in the same round, median of the rounds.\n"
    + `${cpus} × ${cpu}, Node ${node}.\n`
  ].join("\n\n")
}
