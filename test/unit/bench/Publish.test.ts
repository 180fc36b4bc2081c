/** The documents show the figures of the recorded runs, and no others: writing them again changes nothing. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { documents, fillSections, plotsOf, readResults } from "../../../bench/publish/documents.ts"

const results = readResults("bench/results")

describe("npm run bench:publish", () => {
  for (const file of documents) {
    it(`has written all figures of ${file}`, () => {
      const document = fs.readFileSync(file, "utf8")
      assert.match(document, /<!-- bench:/)
      assert.strictEqual(fillSections(document, results), document)
    })
  }

  it("has drawn all plots", () => {
    for (const [name, plot] of plotsOf(results)) {
      assert.strictEqual(fs.readFileSync(`docs/performance/${name}`, "utf8"), plot)
    }
  })
})
