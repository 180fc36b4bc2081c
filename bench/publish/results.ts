/**
 * The recorded runs, from which the documents take their figures.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import type { GrowthReport } from "../growth/report.ts"
import type { MemoryReport } from "../memory/report.ts"
import type { Report } from "../reads/report.ts"
import type { SubmissionReport } from "../submission/report.ts"

/** Each is null if there is no recorded run. */
export interface Results {
  readonly reads: Report | null
  readonly memory: MemoryReport | null
  readonly submission: SubmissionReport | null
  readonly growth: GrowthReport | null
}

const readJson = <A>(file: string): A | null =>
  fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) as A : null

/** Reads `reads.json`, `memory.json`, `submission.json` and `growth.json` of a directory. */
export const readResults = (directory: string): Results => ({
  reads: readJson(path.join(directory, "reads.json")),
  memory: readJson(path.join(directory, "memory.json")),
  submission: readJson(path.join(directory, "submission.json")),
  growth: readJson(path.join(directory, "growth.json"))
})
