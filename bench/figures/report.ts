/**
 * The report of the figures benchmark, as tables and as JSON.
 */
import { median } from "../shared/statistics.ts"
import { align, machine } from "../shared/table.ts"
import type { ReadCost, Reads } from "./reads.ts"
import type { WriterRound } from "./writers.ts"

export interface FiguresReport {
  readonly writers: ReadonlyArray<{ readonly name: string; readonly rounds: ReadonlyArray<WriterRound> }>
  readonly reads: Reads
}

/** Medians over the rounds. A ratio compares with the first contestant in the same round. */
const summarize = ({ writers }: FiguresReport) =>
  writers.map(({ name, rounds }) => {
    const ratioOf = (figure: (round: WriterRound) => number) =>
      median(rounds.map((round, index) => figure(round) / figure(writers[0]!.rounds[index]!)))
    return {
      name,
      operationsPerSecond: median(rounds.map((round) => round.operationsPerSecond)),
      ratio: ratioOf((round) => round.operationsPerSecond),
      databaseCpu: median(rounds.map((round) => round.databaseCpu)),
      databaseCpuRatio: ratioOf((round) => round.databaseCpu),
      wal: median(rounds.map((round) => round.wal)),
      walRatio: ratioOf((round) => round.wal)
    }
  })

export const toJson = (report: FiguresReport): string =>
  `${JSON.stringify({ ...machine(), summary: summarize(report), ...report }, null, 2)}\n`

export const toTable = (report: FiguresReport): string => {
  const { cpu, cpus, node } = machine()
  const { dead, fold, sizes, unfolded } = report.reads
  const readRow = (name: string, cost: ReadCost) => [
    name,
    String(cost.operations),
    String(cost.unsettled),
    String(cost.counts),
    cost.now.toFixed(1),
    String(cost.buffers),
    cost.plainCount.toFixed(1)
  ]
  const writerRows = summarize(report).map((row) => [
    row.name,
    row.operationsPerSecond.toFixed(0),
    row.ratio.toFixed(3),
    row.databaseCpu.toFixed(0),
    row.databaseCpuRatio.toFixed(3),
    row.wal.toFixed(0),
    row.walRatio.toFixed(3)
  ])
  return [
    align([["8 writers", "operations/s", "ratio", "database us", "ratio", "WAL bytes", "ratio"], ...writerRows]),
    "An operation is accepted, claimed and recorded twice. ratio: to the first row in the same round, median of the rounds.",
    align([
      ["reads", "operations", "unsettled", "rows of counts", "figures ms", "buffers", "plain count ms"],
      ...sizes.map((cost) => readRow("folded", cost)),
      readRow("not folded", unfolded),
      readRow("dead rows", dead)
    ]),
    `The fold took ${fold.toFixed(0)} ms. ${cpus} × ${cpu}, Node ${node}.\n`
  ].join("\n\n")
}
