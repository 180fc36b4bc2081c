/**
 * The documents of the package link only to what it holds, also if `npm pack` packs a clone. The test runs what `prepack` and `postpack` run, in a
 * clone, and lists the files that npm packs.
 */
import { assert, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { deadLinks } from "../../fixtures/Markdown.ts"
import { cloneTo, runIn } from "../../fixtures/package/Release.ts"

it("links of packed documents lead to packed files, and the clone gets its documents back", ({ onTestFinished }) => {
  const temporary = fs.mkdtempSync(path.join(os.tmpdir(), "links-"))
  onTestFinished(() => fs.rmSync(temporary, { recursive: true }))
  const clone = cloneTo(path.join(temporary, "clone"))
  // The kept documents must not lie in the packages of this clone.
  fs.rmSync(path.join(clone, "node_modules"))
  runIn(clone, ["node scripts/packLinks.ts resolve"])
  const [{ files }] = JSON.parse(runIn(clone, ["npm pack --dry-run --json --ignore-scripts"])) as [
    { readonly files: ReadonlyArray<{ readonly path: string }> }
  ]
  const packed = path.join(temporary, "packed")
  for (const { path: file } of files) fs.cpSync(path.join(clone, file), path.join(packed, file))
  assert.isFalse(fs.existsSync(path.join(packed, "deploy/Containerfile")), "it needs files that the package lacks")
  const documents = fs.globSync("**/*.md", { cwd: packed })
  assert.includeMembers(documents, ["README.md", "SECURITY.md", "docs/fapi.md"])
  assert.deepStrictEqual(documents.flatMap((file) => deadLinks(packed, file)), [])
  runIn(clone, ["node scripts/packLinks.ts"])
  for (const file of documents) {
    assert.strictEqual(fs.readFileSync(path.join(clone, file), "utf8"), fs.readFileSync(file, "utf8"), file)
  }
}, 60_000)

it("a pack that fails leaves the documents as they were", async ({ onTestFinished }) => {
  const temporary = fs.mkdtempSync(path.join(os.tmpdir(), "links-"))
  onTestFinished(() => fs.rmSync(temporary, { recursive: true }))
  const clone = cloneTo(path.join(temporary, "clone"))
  fs.rmSync(path.join(clone, "node_modules"))
  const manifest = path.join(clone, "package.json")
  // The build needs a minute, and changes no document.
  fs.writeFileSync(manifest, fs.readFileSync(manifest, "utf8").replace("npm run build && ", ""))
  runIn(clone, ["npm pack --pack-destination missing || cp SECURITY.md failed.md", "test -e failed.md"])
  const kept = path.join(clone, "node_modules/.cache/packLinks.json")
  for (let turns = 0; fs.existsSync(kept) && turns < 300; turns++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  assert.strictEqual(fs.readFileSync(path.join(clone, "SECURITY.md"), "utf8"), fs.readFileSync("SECURITY.md", "utf8"))
}, 60_000)
