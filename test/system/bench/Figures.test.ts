/**
 * The benchmark of the figures runs: the test runs it in miniature as a process, and judges no time.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { promisify } from "node:util"

const run = promisify(execFile)

const miniature = ["--rounds", "1", "--operations", "10", "--age", "20", "--sizes", "1000,2000"]

describe("npm run bench:figures", () => {
  it("measures writers on three ledgers, and readers on ledgers of the sizes that it was given", async () => {
    const { stdout } = await run(process.execPath, ["bench/figures.ts", "--json", ...miniature])
    const { reads, writers } = JSON.parse(stdout) as {
      readonly writers: ReadonlyArray<{ readonly rounds: ReadonlyArray<{ readonly wal: number }> }>
      readonly reads: {
        readonly sizes: ReadonlyArray<
          { readonly operations: number; readonly unsettled: number; readonly buffers: number }
        >
        readonly unfolded: { readonly counts: number }
        readonly dead: { readonly counts: number }
      }
    }
    assert.lengthOf(writers, 3)
    for (const { rounds } of writers) assert.isAbove(rounds[0]!.wal, 0)
    assert.deepStrictEqual(reads.sizes.map(({ operations, unsettled }) => [operations, unsettled]), [[1000, 100], [
      2000,
      200
    ]])
    for (const { buffers } of reads.sizes) assert.isAbove(buffers, 0)
    assert.isAbove(reads.unfolded.counts, 100_000)
    assert.isBelow(reads.dead.counts, 100_000)
  })
})
