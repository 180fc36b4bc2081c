/**
 * `npm run bench:publish`: writes the figures of recorded runs into README.md, docs/comparison.md,
 * docs/performance.md and docs/postgresql.md, and the plots into docs/performance. The runs are JSON reports in bench/results:
 *
 *   reads.json        of `npm run -s bench -- --go --json`
 *   memory.json       of `npm run -s bench:memory -- --json`
 *   submission.json   of `npm run -s bench:submission -- --json`
 *   growth.json       of `npm run -s bench:growth -- --json`
 *   faults.json       of `npm run -s compare:faults -- --out bench/results/faults.json`
 *
 *     npm run bench:publish -- --results recorded
 */
import * as fs from "node:fs"
import { fileURLToPath } from "node:url"
import { documents, fillSections, plotsOf, readResults } from "./publish/documents.ts"
import { readOptions, text } from "./shared/usage.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const options = readOptions(import.meta.url, {
  results: text("Directory of the reports (default bench/results)", {
    takes: "DIRECTORY",
    default: null,
    problem: (directory) => fs.existsSync(directory) ? null : `is no directory: ${directory}`
  })
})
const results = readResults(options.results ?? `${root}bench/results`)

for (const file of documents) {
  fs.writeFileSync(`${root}${file}`, fillSections(fs.readFileSync(`${root}${file}`, "utf8"), results))
}
const plots = plotsOf(results)
if (plots.size > 0) fs.mkdirSync(`${root}docs/performance`, { recursive: true })
for (const [name, plot] of plots) fs.writeFileSync(`${root}docs/performance/${name}`, plot)
