/** The benchmark of growth runs: the test runs it in miniature as a process, and judges no time. */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import type { GrowthReport } from "../../../bench/growth/report.ts"

const run = promisify(execFile)

const miniature = ["--rounds", "1", "--operations", "20", "--sizes", "1000,3000", "--seconds", "2", "--rate", "10"]

describe("npm run bench:growth", () => {
  it("measures each call on ledgers of the sizes that it was given, and while a snapshot is open", async () => {
    const { stdout } = await run(process.execPath, ["bench/growth.ts", "--json", ...miniature])
    const { grown, kinds, snapshot } = JSON.parse(stdout) as GrowthReport
    assert.deepStrictEqual(grown.map(({ history, operations, unsettled }) => [operations, unsettled, history]), [
      // An operation has three entries. One that waits has one, and one that is claimed or cancelled two.
      [1000, 10, 3 * 1000 - 2 * 2 - 3 - 10],
      [3000, 30, 3 * 3000 - 2 * 7 - 8 - 30]
    ])
    // 20 operations in each of two rounds, before and during, and 20 of the work.
    assert.strictEqual(snapshot.settled, 20)
    for (const { costs } of [...grown, ...snapshot.phases]) {
      assert.sameMembers(Object.keys(costs), Object.keys(kinds))
      for (const [kind, { cpu, hits, misses }] of Object.entries(costs)) {
        assert.isAbove(cpu, 0, kind)
        assert.isAbove(hits + misses, 0, kind)
      }
      assert.isAbove(costs.accept.wal, 0)
      assert.isAbove(costs.record.wal, 0)
    }
    assert.strictEqual(grown[0]!.costs.accept.ratio, 1)
  })
})
