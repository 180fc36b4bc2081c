/**
 * The tests in the documentation pass. This file writes the named code blocks of all pages into one folder, beside the source
 * of the template, and imports those that are tests (`*.test.ts`), which registers them here.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll } from "vitest"
import { codeBlocks } from "../../fixtures/Markdown.ts"

const pages = ["README.md", ...fs.globSync("docs/*.md")]
const blocks = pages.flatMap((page) => codeBlocks(page).map((block) => ({ ...block, page })))
const named = blocks.filter(({ isNamed }) => isNamed)

fs.mkdirSync(".data", { recursive: true })
const folder = fs.mkdtempSync(path.resolve(".data/guides-"))
fs.cpSync("template/src", path.join(folder, "src"), { recursive: true })
fs.mkdirSync(path.join(folder, "test"))
for (const { code, name } of named) fs.writeFileSync(path.join(folder, name), code)
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

describe("The code in the documentation", () => {
  it("has a file name once", () => {
    const names = blocks.map(({ name }) => name)
    assert.deepStrictEqual(names.filter((name, at) => names.indexOf(name) !== at), [])
  })

  it("has tests", () => assert.isAtLeast(named.filter(({ name }) => name.endsWith(".test.ts")).length, 3))
})

for (const { name, page } of named.filter(({ name }) => name.endsWith(".test.ts"))) {
  describe(`${page}, ${name}:`, async () => {
    await import(/* @vite-ignore */ path.join(folder, name))
  })
}
