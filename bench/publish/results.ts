/**
 * The recorded runs, from which the documents take their figures.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import type { GrowthReport } from "../growth/report.ts"
import type { MemoryReport } from "../memory/report.ts"
import type { Report } from "../reads/report.ts"
import type { SubmissionReport } from "../submission/report.ts"

export interface Results {
  /** The measured run of the benchmark of reads; null if there is none. */
  readonly reads: Report | null
  /** Runs of the steps that led to it, in order. Each has a label. */
  readonly steps: ReadonlyArray<Report>
  readonly memory: MemoryReport | null
  readonly submission: SubmissionReport | null
  readonly growth: GrowthReport | null
}

const readJson = <A>(file: string): A | null =>
  fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) as A : null

/** Reads `reads.json`, `memory.json`, `submission.json`, `growth.json` and `steps/*.json`, by name, of a directory. */
export const readResults = (directory: string): Results => {
  const steps = path.join(directory, "steps")
  const names = fs.existsSync(steps) ? fs.readdirSync(steps).filter((name) => name.endsWith(".json")).sort() : []
  return {
    reads: readJson(path.join(directory, "reads.json")),
    memory: readJson(path.join(directory, "memory.json")),
    submission: readJson(path.join(directory, "submission.json")),
    growth: readJson(path.join(directory, "growth.json")),
    steps: names.map((name) => {
      const report = readJson<Report>(path.join(steps, name))!
      return { ...report, label: report.label ?? name.replace(/^\d+-|\.json$/g, "") }
    })
  }
}
