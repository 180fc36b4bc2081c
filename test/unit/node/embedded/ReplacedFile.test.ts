/** Files of the embedded PostgreSQL that it replaces while this process opens them. */
import { afterEach, assert, it } from "@effect/vitest"
import fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import { readFile } from "../../../../src/node/embedded/System.ts"

const { fstatSync } = fs
const directory = fs.mkdtempSync(path.join(os.tmpdir(), "replaced-"))
const file = path.join(directory, "postmaster.pid")

/** Acts once, between the opening of a file and the look at it. */
const betweenOpeningAndLooking = (act: () => void) => {
  fs.fstatSync = ((descriptor: number) => {
    fs.fstatSync = fstatSync
    syncBuiltinESMExports()
    act()
    return fstatSync(descriptor)
  }) as typeof fstatSync
  syncBuiltinESMExports()
}

afterEach(() => {
  fs.fstatSync = fstatSync
  syncBuiltinESMExports()
  fs.rmSync(directory, { recursive: true, force: true })
})

it("A pid file that a server removes or replaces while it is opened is absent, or the new one", () => {
  fs.writeFileSync(file, "1")
  betweenOpeningAndLooking(() => fs.rmSync(file))
  assert.isUndefined(readFile(file))
  fs.writeFileSync(file, "1")
  betweenOpeningAndLooking(() => {
    fs.rmSync(file)
    fs.writeFileSync(file, "2")
  })
  assert.strictEqual(readFile(file), "2")
})
