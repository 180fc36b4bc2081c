/**
 * The comparison by faults runs in its short form. The test judges no time: a busy machine may leave more payments to a person, and none
 * may be wrong.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"
import { type FaultsReport, wrongOf } from "../../../bench/faults/report.ts"

const run = promisify(execFile)

describe("npm run compare:faults -- --quick", () => {
  it("finds no wrong payment of the gateway, and payments that its peers made twice at a bank without keys", async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "compare-test-"))
    const out = path.join(directory, "faults.json")
    // Vitest sets it, and a gateway would take it for its own.
    const { BASE_URL: _, ...env } = process.env
    await run(process.execPath, ["bench/faults.ts", "--quick", "--out", out], { env })
    const { errors, rows } = JSON.parse(fs.readFileSync(out, "utf8")) as FaultsReport
    fs.rmSync(directory, { recursive: true })
    assert.deepStrictEqual(errors, [])
    assert.deepStrictEqual(rows.map(({ payments }) => payments), rows.map(() => 20))
    const [gateway, ...peers] = rows
    assert.strictEqual(gateway!.contestant, "gateway")
    assert.strictEqual(wrongOf(gateway!), 0)
    for (const { contestant, counts, variant } of peers) {
      if (variant === "default") assert.isAbove(counts.paid_twice, 0, contestant)
    }
  })
})
