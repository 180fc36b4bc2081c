/** The benchmark of reads runs: the test runs it in miniature as a process, on few operations, and judges no figure. */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { inject } from "vitest"
import { hasGo } from "../../../bench/peers/goPeer.ts"
import { peerNames } from "../../../bench/reads/contestants.ts"
import type { Report } from "../../../bench/reads/report.ts"

const run = promisify(execFile)

const miniature = ["--operations", "500", "--connections", "4", "--rounds", "1", "--seconds", "0.1", "--warm-up", "0.1"]

const bench = async (options: ReadonlyArray<string>): Promise<Report> => {
  const { stdout } = await run(process.execPath, ["bench/reads.ts", "--json", ...miniature, ...options])
  return JSON.parse(stdout) as Report
}

describe("npm run bench", () => {
  it("compares the command with all installed peers, and all give the same answers", async () => {
    const options = ["--scenario", "read", "--command", inject("command"), ...hasGo() ? ["--go"] : []]
    const { comparisons: [read], ...rest } = await bench(options)
    const peers = Object.values(peerNames).filter((name) => hasGo() || name !== peerNames.go)
    assert.strictEqual(rest.operations, 500)
    assert.deepStrictEqual(read!.targets.map(({ name }) => name), ["gateway", ...peers])
    assert.deepStrictEqual(read!.ratios.map(({ to }) => to), peers)
    assert.deepStrictEqual(
      read!.targets.map(({ errors, firstError }) => [errors, firstError]),
      read!.targets.map(() => [0, null])
    )
    assert.strictEqual(read!.goals.length, 4)
  })
})
