/**
 * The report of the benchmark of writes, as a table and as JSON. Medians over the rounds.
 */
import { median } from "../shared/statistics.ts"
import { align, machine } from "../shared/table.ts"
import { type Round, steps } from "./rounds.ts"

const summarize = (rounds: ReadonlyArray<Round>) =>
  steps.map((step) => ({
    step,
    cpu: median(rounds.map((round) => round[step].cpu)),
    wal: median(rounds.map((round) => round[step].wal))
  }))

export const toJson = (rounds: ReadonlyArray<Round>): string =>
  `${JSON.stringify({ ...machine(), summary: summarize(rounds), rounds }, null, 2)}\n`

export const toTable = (rounds: ReadonlyArray<Round>): string => {
  const { cpu, cpus, node } = machine()
  return `${
    [
      align([
        ["for each operation", "CPU us", "WAL bytes"],
        ...summarize(rounds).map((row) => [row.step, row.cpu.toFixed(0), row.wal.toFixed(0)])
      ]),
      `${rounds.length} rounds; medians. ${cpus} x ${cpu}, Node ${node}.`
    ].join("\n\n")
  }\n`
}
