/**
 * The number of processes that a supervisor runs, and the delay before it replaces one.
 */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import * as os from "node:os"
import { ProcessCount } from "../../../src/node/ProcessCount.ts"
import { restartDelay } from "../../../src/node/Supervisor.ts"

describe("A number of processes", () => {
  const decode = Schema.decodeUnknownSync(ProcessCount)

  it("is a whole number from 1 to 64, or the number of available cores", () => {
    assert.deepStrictEqual(["1", "2", "64"].map((text) => decode(text)), [1, 2, 64])
    assert.strictEqual(decode("auto"), Math.min(64, os.availableParallelism()))
  })

  it("is refused with its rule otherwise", () => {
    for (const text of ["0", "65", "-1", "1.5", "", " ", "2 ", "AUTO", "1e1"]) {
      assert.throws(() => decode(text), /a number of processes from 1 to 64, or auto/)
    }
  })
})

describe("The delay before a process is replaced", () => {
  it("doubles with each quick end in a row, and is never above 30 seconds", () => {
    assert.strictEqual(restartDelay(0), 100)
    fc.assert(fc.property(fc.integer({ min: 1, max: 5000 }), (ends) => {
      assert.strictEqual(restartDelay(ends + 1), Math.min(30_000, restartDelay(ends) * 2))
    }))
  })
})
