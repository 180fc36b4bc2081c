/**
 * The benchmark of the feed runs: the test runs it in miniature as a process, and judges no figure.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { promisify } from "node:util"

const run = promisify(execFile)

const miniature = ["--rounds", "1", "--operations", "10", "--age", "20"]

describe("npm run bench:feed", () => {
  it("removes the feed from the triggers of one ledger, and measures both", async () => {
    const { stdout } = await run(process.execPath, ["bench/feed.ts", "--json", ...miniature])
    const { contestants } = JSON.parse(stdout) as {
      readonly contestants: ReadonlyArray<{ readonly operationsPerSecond: number; readonly wal: number }>
    }
    assert.lengthOf(contestants, 3)
    for (const { operationsPerSecond, wal } of contestants) {
      assert.isAbove(operationsPerSecond, 0)
      assert.isAbove(wal, 0)
    }
  })
})
