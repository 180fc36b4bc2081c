/**
 * `node test/long/faults/cluster/judgeRun.ts DIRECTORY`: judges a run by its files, as a program of its own. Prints the figures as
 * JSON. Exits with 1 if one breaks its rule.
 */
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { brokenIn, type Figures } from "../kit/Figure.ts"
import { readEvidence } from "./History.ts"
import { judge } from "./Judge.ts"

/** The figures of a run by that program. Rejects if it fails. */
export const judged = (directory: string): Promise<Figures> =>
  new Promise((resolve, reject) => {
    const arguments_ = [fileURLToPath(import.meta.url), directory]
    execFile(process.execPath, arguments_, { maxBuffer: 256 << 20 }, (error, output) => {
      if (output === "") reject(error ?? new Error("the judge printed nothing"))
      else resolve(JSON.parse(output) as Figures)
    })
  })

if (import.meta.main) {
  const [, , directory] = process.argv
  if (directory === undefined) throw new Error("specify the directory of a run")
  const figures = judge(readEvidence(directory))
  process.stdout.write(`${JSON.stringify(figures)}\n`)
  if (brokenIn(figures).length > 0) process.exitCode = 1
}
