/**
 * The documentation agrees with the code: the transition table, links to files, and the tests of the threat model. The
 * tests parse the documents.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { operationStates, transitions } from "../../src/domain/Operation.ts"

const read = (file: string) => fs.readFileSync(file, "utf8")

describe("The documentation", () => {
  it("shows the transition table of the code", () => {
    const rows = [...read("docs/operations.md").matchAll(/^\| (\w+) \| ([\w, ]+) \|$/gm)]
      .filter(([, from]) => (operationStates as ReadonlyArray<string>).includes(from!))
      .map(([, from, to]) => [from, to === "none" ? [] : to!.split(", ")])
    assert.deepStrictEqual(Object.fromEntries(rows), transitions)
  })

  it("links only to files that exist", () => {
    for (
      const file of [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/authorization.md",
        "docs/fapi.md",
        "docs/operations.md",
        "docs/postgresql.md",
        "docs/submission.md",
        "docs/mutations.md"
      ]
    ) {
      for (const [, target] of read(file).matchAll(/\]\((?!https?:)([^)#]+)\)/g)) {
        assert.isTrue(fs.existsSync(path.join(path.dirname(file), target!)), `${file} links to ${target}`)
      }
    }
  })

  it("names each test of an attack in the threat model", () => {
    const model = read("SECURITY.md")
    for (const file of fs.globSync("test/*/attacks/*.test.ts")) {
      assert.include(model, `](${file})`)
    }
  })
})
