/**
 * The table of planted mistakes fits the source: each old text occurs once in its file, and the named tests exist. `npm run plants`
 * shows that the tests find the mistakes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { checkTable, type Plant, unit } from "../plants/Plant.ts"
import { subjects } from "../plants/subjects.ts"

describe("The table of plants", () => {
  it("fits the source and the tests", () => {
    assert.deepStrictEqual(checkTable(process.cwd(), Object.values(subjects).flat()), [])
  })

  it("is refused where a plant would prove nothing", () => {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), "plants-"))
    try {
      fs.mkdirSync(path.join(root, "test/unit"), { recursive: true })
      fs.writeFileSync(path.join(root, "source.ts"), "once twice twice")
      fs.writeFileSync(path.join(root, "test/unit/Rules.test.ts"), "it(\"holds the rule\"")
      const plant: Plant = { rule: "a", file: "source.ts", from: "once", to: "never", tests: [unit("Rules")] }
      const titled = unit("Rules", "holds the rule")
      const problems = (...changes: ReadonlyArray<Partial<Plant>>) =>
        checkTable(root, changes.map((change, n) => ({ ...plant, rule: `${n}`, ...change }))).length
      assert.strictEqual(problems({}, { tests: [titled] }), 0)
      for (
        const wrong of [
          { file: "other.ts" },
          { from: "twice" },
          { from: "thrice" },
          { to: "once" },
          { tests: [] },
          { tests: [unit("Other")] },
          { tests: [unit("Rules", "holds another rule")] },
          { tests: [unit("Rules"), titled] }
        ]
      ) assert.strictEqual(problems(wrong), 1, JSON.stringify(wrong))
      assert.strictEqual(checkTable(root, [plant, plant]).length, 1)
    } finally {
      fs.rmSync(root, { recursive: true })
    }
  })
})
