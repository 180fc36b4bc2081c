/**
 * Holds true that the public modules and their exports are those of `docs/api.md`, and that the examples use no others.
 * How: by reading the source of each module that package.json lists. `npm run surface` rewrites the file.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { apiIndexFile, firstSentence } from "../../../scripts/apiIndex.ts"
import { clientMembers, clientMembersFile, membersOf } from "../../../scripts/clientMembers.ts"
import { describedModules, exportsOf, index, namesIn, publicNames, sourceCondition } from "../../../scripts/surface.ts"
import { hasMembers } from "../../../src/client/Exchange.ts"

const manifest = JSON.parse(fs.readFileSync("package.json", "utf8")) as {
  readonly name: string
  readonly scripts: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
}

const importsOf = (file: string) =>
  [...fs.readFileSync(file, "utf8").matchAll(/(?:from|import\() ?"([^"]+)"/g)].map(([, module]) => module!)

describe("The public surface", () => {
  it("is listed by docs/api.md: if it changes, run `npm run surface` and commit the file", () => {
    assert.strictEqual(index(manifest), fs.readFileSync(apiIndexFile, "utf8"))
  })

  it("has the members that the client on fetch checks: if they change, run `npm run surface` and commit the file", () => {
    assert.strictEqual(clientMembers(), fs.readFileSync(clientMembersFile, "utf8"))
  })

  it("lets an answer lack an optional member, which the client on fetch checks where it stands", () => {
    const check = hasMembers(membersOf(Schema.Struct({ id: Schema.String, note: Schema.optionalKey(Schema.String) })))
    assert.strictEqual(check({ id: "1" }), null)
    assert.strictEqual(check({ id: "1", note: "new" }), null)
    assert.strictEqual(check({ id: "1", note: 2 }), "note")
    assert.strictEqual(check({ note: "new" }), "id")
  })

  it("has a docstring for each module and export, whose first sentence says what it is", () => {
    const sentences = [...describedModules(manifest)].flatMap(([key, { exports, sentence }]) => [
      `${key}: ${sentence}`,
      ...[...exports].map(([name, text]) => `${key} ${name}: ${text}`)
    ])
    assert.isAbove(sentences.length, 200)
    assert.deepStrictEqual(sentences.filter((line) => !/: [A-Z`\d].{8,}\.$/.test(line)), [])
  })

  it("is explained by first sentences, which end at a full stop and not within code or numbers", () => {
    assert.strictEqual(firstSentence("* Sends `a.b` in 1.5 s. Then\n * waits."), "Sends `a.b` in 1.5 s.")
    assert.strictEqual(
      firstSentence("*\n * Joins lines\n * of a paragraph\n *\n * and no more."),
      "Joins lines of a paragraph"
    )
  })

  it("is exported by package.json from the paths at which the modules are, source first", () => {
    assert.deepStrictEqual(manifest.exports, exportsOf(manifest))
    // deepStrictEqual ignores the order of keys, and the first condition that fits wins.
    assert.strictEqual(JSON.stringify(manifest.exports), JSON.stringify(exportsOf(manifest)))
  })

  it("counts values, types, classes and names that are exported again", () => {
    assert.deepStrictEqual(
      namesIn(`
        import { B, type C } from "./b.ts"
        export { B, type C }
        export type { D as E } from "./d.ts"
        export const f = 1, g = 2
        export const H = 1
        export type H = number
        export class I<A> { static readonly j = 1 }
        export interface K { readonly l: string }
        export function m() {}
        /** N. @internal */
        export const n = 1
        const o = 1`),
      ["B", "H", "I", "f", "g", "m", "type C", "type E", "type K"]
    )
    assert.throws(() => namesIn("export * from \"./b.ts\""), /by name only/)
  })

  it("has the value of each service whose layers it lists", () => {
    const rows = new Map(index(manifest).split("\n").map((row) => [row.split("`")[1], row]))
    for (const [key, names] of publicNames(manifest)) {
      for (const name of names.filter((name) => name.startsWith("type "))) {
        assert.notMatch(rows.get(key.slice(2))!, RegExp(`\`${name.slice(5)}\` \`[^\`]*; static`), key)
      }
    }
  })

  it("holds no module without a source, or with two", () => {
    assert.throws(() => exportsOf({ exports: { "./api/Missing": {} } }), /\.\/api\/Missing in package\.json: 0/)
  })

  it("is all that the examples import of the project, by the name of the package", () => {
    const examples = fs.globSync("examples/**/*.ts")
    assert.isAbove(examples.length, 5)
    const imports = examples.flatMap((file) => importsOf(file).map((module) => ({ file, module })))
    assert.deepStrictEqual(imports.filter(({ module }) => module.includes("/src/")), [])
    const ours = imports.filter(({ module }) => module.startsWith(manifest.name))
    assert.isAbove(ours.length, 20)
    const allowed = Object.keys(manifest.exports).map((key) => key.replace(".", manifest.name))
    assert.deepStrictEqual(ours.filter(({ module }) => !allowed.includes(module)), [])
  })

  it("is resolved to the source by the scripts that start the examples", () => {
    const starts = Object.entries(manifest.scripts).filter(([name]) => name.startsWith("example:"))
    assert.lengthOf(starts, 6)
    for (const [, script] of starts) {
      const [exec, node, condition, file = ""] = script.split(" ")
      // Without exec a shell stands between npm and the program, and keeps signals to itself.
      assert.deepStrictEqual([exec, node, condition], ["exec", "node", `--conditions=${sourceCondition}`])
      assert.isTrue(fs.existsSync(file), file)
    }
  })
})
