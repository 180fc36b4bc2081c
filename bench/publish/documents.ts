/** Puts the recorded figures into the documents, between markers. */
import * as fs from "node:fs"
import * as path from "node:path"
import type { FaultsReport } from "../faults/report.ts"
import type { GrowthReport } from "../growth/report.ts"
import type { MemoryReport } from "../memory/report.ts"
import type { Report } from "../reads/report.ts"
import type { SubmissionReport } from "../submission/report.ts"
import { faultsPlot, faultsText, proofText } from "./faults.ts"
import { growthPlot, memoryPlot, ratiosPlot, submissionCpuPlot, submissionPlot } from "./plots.ts"
import { growthTables, memoryTable, readsTables, submissionTables } from "./tables.ts"

/** The recorded runs. Each is null if there is none. */
interface Results {
  readonly reads: Report | null
  readonly memory: MemoryReport | null
  readonly submission: SubmissionReport | null
  readonly growth: GrowthReport | null
  readonly faults: FaultsReport | null
}

const readJson = <A>(file: string): A | null =>
  fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) as A : null

/** Reads `reads.json`, `memory.json`, `submission.json`, `growth.json` and `faults.json` of a directory. */
export const readResults = (directory: string): Results => ({
  reads: readJson(path.join(directory, "reads.json")),
  memory: readJson(path.join(directory, "memory.json")),
  submission: readJson(path.join(directory, "submission.json")),
  growth: readJson(path.join(directory, "growth.json")),
  faults: readJson(path.join(directory, "faults.json"))
})

type Section = "reads" | "memory" | "submission" | "growth" | "faults" | "proof"

/** The command that records what a section lacks. */
const commands: Readonly<Record<Section, string>> = {
  reads: "npm run -s bench -- --go --json > bench/results/reads.json",
  memory: "npm run -s bench:memory -- --json > bench/results/memory.json",
  submission: "npm run -s bench:submission -- --json > bench/results/submission.json",
  growth: "npm run -s bench:growth -- --json > bench/results/growth.json",
  faults: "npm run -s compare:faults -- --out bench/results/faults.json",
  proof: "npm run -s compare:faults -- --out bench/results/faults.json"
}

const unmeasured = (section: Section) =>
  `Not measured yet. Record a run, then run \`npm run bench:publish\`:\n\n    ${commands[section]}`

const image = (name: string, description: string) => `![${description}](performance/${name}.svg)`

/** The text between the markers of each section. */
const sectionsOf = ({ faults, growth, memory, reads, submission }: Results): Readonly<Record<Section, string>> => ({
  reads: reads === null
    ? unmeasured("reads")
    : `${image("ratios", "Requests per second relative to Fastify + pg")}\n\n${readsTables(reads)}`,
  memory: memory === null
    ? unmeasured("memory")
    : `${image("memory", "Memory under a mixed load")}\n\n${memoryTable(memory)}`,
  submission: submission === null ? unmeasured("submission") : [
    image("submission", "Operations per second of the worker and its peers"),
    image("submission-cpu", "CPU time of an operation"),
    submissionTables(submission)
  ].join("\n\n"),
  growth: growth === null
    ? unmeasured("growth")
    : `${image("growth", "Database CPU of each call as the ledger grows")}\n\n${growthTables(growth)}`,
  faults: faults === null
    ? unmeasured("faults")
    : `${image("faults", "Payments that were wrong, and payments left for a person")}\n\n${faultsText(faults)}`,
  proof: faults === null
    ? unmeasured("proof")
    : proofText(faults)
})

/** The documents with figures of recorded runs. */
export const documents: ReadonlyArray<string> = [
  "README.md",
  "docs/comparison.md",
  "docs/performance.md",
  "docs/postgresql.md"
]

/** Wraps sentences at 110 characters, as dprint does; tables and images stay. */
const wrapped = (text: string) =>
  text.split("\n").map((line) => /^[|!]/.test(line) ? line : line.replaceAll(/(.{1,110})(?: |$)/g, "$1\n").trimEnd())
    .join("\n")

/** Replaces the text between `<!-- bench:NAME -->` and `<!-- /bench -->`. */
export const fillSections = (document: string, results: Results): string => {
  const sections = sectionsOf(results)
  return document.replaceAll(
    /(<!-- bench:(\w+) -->\n).*?(<!-- \/bench -->)/gs,
    (whole, start: string, name: string, end: string) =>
      name in sections ? `${start}\n${wrapped(sections[name as Section])}\n\n${end}` : whole
  )
}

/** The plots by file name, for the results that there are. */
export const plotsOf = ({ faults, growth, memory, reads, submission }: Results): ReadonlyMap<string, string> =>
  new Map([
    ...reads === null ? [] : [["ratios.svg", ratiosPlot(reads)] as const],
    ...memory === null ? [] : [["memory.svg", memoryPlot(memory)] as const],
    ...submission === null ? [] : [
      ["submission.svg", submissionPlot(submission)] as const,
      ["submission-cpu.svg", submissionCpuPlot(submission)] as const
    ],
    ...growth === null ? [] : [["growth.svg", growthPlot(growth)] as const],
    ...faults === null ? [] : [
      ["faults.svg", faultsPlot(faults)] as const
    ]
  ])
