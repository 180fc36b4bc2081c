/** A data directory that cannot be created is an error at once. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { openDataDirectory } from "../../../../src/node/embedded/System.ts"
import { temporaryDirectory } from "../../../fixtures/TemporaryDirectory.ts"

describe("The data directory", () => {
  it.effect("is created with the directories above it, and opened again as it is", () =>
    Effect.gen(function*() {
      const home = yield* temporaryDirectory
      const directory = path.join(home, "a", "b")
      for (const _ of [1, 2]) assert.strictEqual(yield* openDataDirectory(directory), directory)
      assert.strictEqual(fs.statSync(directory).mode & 0o777, 0o700)
    }))

  // Linux creates no directory there, and says that one above is missing.
  it.effect.skipIf(process.platform !== "linux")(
    "is refused where the system creates none",
    () =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(openDataDirectory("/proc/data"))
        assert.include(error.message, "Could not use the data directory /proc/data")
      })
  )
})
