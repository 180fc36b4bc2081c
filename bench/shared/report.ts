/** What the reports of all benchmarks share: lines while it runs, the machine, tables, and the output as JSON. */
import { Effect } from "effect"
import * as os from "node:os"

/** Writes a line to stderr. */
export const say = (line: string) => Effect.sync(() => void process.stderr.write(`${line}\n`))

export interface Machine {
  readonly node: string
  readonly cpu: string
  readonly cpus: number
  readonly memoryGiB: number
}

export const machine = (): Machine => ({
  node: process.version,
  cpu: os.cpus()[0]?.model ?? "unknown",
  cpus: os.cpus().length,
  memoryGiB: Math.round(os.totalmem() / 2 ** 30)
})

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

/** Prints a report: as JSON, or as tables. */
export const print = <Report>(isJson: boolean, report: Report, toTable: (report: Report) => string): void =>
  void process.stdout.write(isJson ? `${JSON.stringify(report, null, 2)}\n` : toTable(report))
