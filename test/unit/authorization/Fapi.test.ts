/** The duty table in `docs/fapi.md` is complete, and each test that it names exists. The tests parse the document. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { proofDifferences, tokenDifferences } from "../../fixtures/authorization/Differences.ts"

const document = fs.readFileSync("docs/fapi.md", "utf8")

/** The rows of the tables whose last column names the tests of a duty. */
const duties = document.split(/^#{2,3} /m).slice(1)
  .filter((section) => section.includes("| Verified by |"))
  .flatMap((section) => [...section.matchAll(/^\| (?!---)(.+?) \| (.*?) \| (.+) \|$/gm)])
  .map(([, duty, , verified]) => ({ duty: duty!, verified: verified!.split("<br>") }))
  .filter(({ verified }) => verified[0] !== "Verified by")

const readTest = (link: string) => {
  const [, name, file, rule] = /^\[(\w+)\]\((\.\.\/test\/[\w/]+\.test\.ts)\): (.+)$/.exec(link) ?? []
  assert.isDefined(rule, `neither a test nor the operator: ${link}`)
  assert.strictEqual(path.basename(file!), `${name!}.test.ts`)
  return { file: path.join("docs", file!), rule: rule! }
}

/** The duties of a resource server in §5.2, §5.3.4 and §5.4 of the profile. */
const required = [
  "§5.2.1-1",
  "§5.2.1-2",
  "§5.2.1-3",
  "§5.2.1-4",
  "§5.2.1-5",
  "§5.2.2",
  "§5.2.3",
  "§5.3.4-1",
  "§5.3.4-2",
  "§5.3.4-3",
  "§5.3.4-4",
  "§5.3.4-5",
  "§5.4.1-1",
  "§5.4.1-2",
  "§5.4.1-3",
  "§5.4.1-4",
  "§5.4.2",
  "§5.4.3"
]

describe("The table of FAPI 2.0 duties", () => {
  it("has every duty of a resource server", () => {
    assert.isAbove(duties.length, 55)
    const named = new Set(duties.map(({ duty }) => duty.split(/[:,]/)[0]))
    for (const duty of required) assert.isTrue(named.has(duty), duty)
  })

  it("names tests that exist, by their titles", () => {
    const links = duties.flatMap(({ verified }) => verified.filter((entry) => !entry.startsWith("the operator: ")))
    assert.isAbove(links.length, 90)
    for (const { file, rule } of links.map(readTest)) {
      assert.isTrue(fs.existsSync(file), file)
      const source = fs.readFileSync(file, "utf8").replaceAll("\\\"", "\"")
      assert.match(source, new RegExp(`["\`]${RegExp.escape(rule)}`), `${file} has no test titled: ${rule}`)
    }
  })

  it("lists exactly the differences that the comparison with oauth4webapi allows", () => {
    const [, table] = document.split("| Accepted by `oauth4webapi` | Why the gateway refuses |\n|---|---|\n")
    const rows = table!.split("\n\n")[0]!.split("\n").map((line) => /^\| (.+?) \| (.+) \|$/.exec(line)!.slice(1))
    assert.deepStrictEqual(Object.fromEntries(rows) as unknown, { ...tokenDifferences, ...proofDifferences })
  })
})
