/**
 * A data directory leads the supervisor of the embedded PostgreSQL, also as root, to no file outside. The tests plant
 * links and other files in one, start the supervisor, and compare their targets.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer, Result } from "effect"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import type { LocalPostgresOptions } from "../../../src/node/embedded/LocalPostgres.ts"
import { openFileRecord } from "../../../src/sandbox/Record.ts"
import { assertAnswers, isAlive, start, temporaryDirectory, timeout } from "./Supervised.ts"
import { another, isRoot } from "./Users.ts"

/** Files that no start may touch: outside of the data directory, owned by the user who runs the tests. */
const outside = Effect.map(temporaryDirectory, (directory) => {
  fs.chmodSync(directory, 0o755)
  const [file, folder] = [path.join(directory, "file"), path.join(directory, "folder")]
  fs.writeFileSync(file, "4194305\nprecious\n", { mode: 0o600 })
  fs.mkdirSync(folder)
  for (const name of ["PG_VERSION", "postmaster.pid", ".s.PGSQL.5432.lock", "kept"]) {
    fs.writeFileSync(path.join(folder, name), `${name === "PG_VERSION" ? 18 : 4194305}\nprecious\n`)
  }
  return { directory, file, folder, absent: path.join(directory, "absent") }
})
type Outside = Effect.Success<typeof outside>

/** The metadata of all files below a directory, and their contents. */
const snapshot = (directory: string) =>
  ["", ...fs.readdirSync(directory, { recursive: true, encoding: "utf8" }).sort()].map((name) => {
    const place = path.join(directory, name)
    const { gid, ino, mode, mtimeMs, nlink, size, uid } = fs.lstatSync(place)
    return [name, ino, uid, gid, mode, nlink, size, mtimeMs, mode & 0o100000 ? fs.readFileSync(place, "utf8") : ""]
  })

interface Plant {
  readonly title: string
  /** The path that is replaced, below the data directory. */
  readonly name: string
  readonly put: (place: string, outside: Outside) => void
}

const files = ["lock", "postgres.log", "pgdata/postmaster.pid", "pgdata/PG_VERSION"]

const links: ReadonlyArray<Plant> = [
  ...files.flatMap((name): ReadonlyArray<Plant> => [
    { title: `${name} links to a file`, name, put: (place, { file }) => fs.symlinkSync(file, place) },
    { title: `${name} links to no file`, name, put: (place, { absent }) => fs.symlinkSync(absent, place) },
    { title: `${name} is a pipe`, name, put: (place) => void execFileSync("mkfifo", [place]) },
    { title: `${name} is a hard link to a file`, name, put: (place, { file }) => fs.linkSync(file, place) }
  ]),
  ...["pgdata", "socket"].map((name): Plant => ({
    title: `${name} links to a directory`,
    name,
    put: (place, { folder }) => fs.symlinkSync(folder, place)
  }))
]

/** Replaces a file by the plant until the scope closes. */
const planted = (dataDirectory: string, { name, put }: Plant, victims: Outside) => {
  const place = path.join(dataDirectory, name)
  const [aside, exists] = [path.join(dataDirectory, "aside"), fs.existsSync(place)]
  return Effect.acquireRelease(
    Effect.sync(() => {
      if (exists) fs.renameSync(place, aside)
      put(place, victims)
    }),
    () =>
      Effect.sync(() => {
        fs.rmSync(place, { force: true })
        if (exists) fs.renameSync(aside, place)
      })
  )
}

/** A start with a plant fails, names the path, and touches no file outside. */
const refuses = Effect.fnUntraced(function*(options: LocalPostgresOptions, plant: Plant) {
  const victims = yield* outside
  yield* planted(options.dataDirectory, plant, victims)
  const before = snapshot(victims.directory)
  const started = yield* Effect.result(Effect.scoped(start(options)))
  assert.deepStrictEqual(snapshot(victims.directory), before, plant.title)
  assert.isTrue(Result.isFailure(started), plant.title)
  if (Result.isFailure(started)) {
    assert.match(started.failure.message, /symbolic link|hard link|not a (?:regular file|directory)/, plant.title)
    assert.include(started.failure.message, path.join(options.dataDirectory, plant.name), plant.title)
  }
}, Effect.scoped)

/** A data directory with a cluster that no server runs on. */
class Stopped extends Context.Service<Stopped, LocalPostgresOptions>()("test/Stopped") {
  static readonly layer = Layer.effect(
    Stopped,
    Effect.gen(function*() {
      const options = { dataDirectory: yield* temporaryDirectory }
      yield* Effect.scoped(start(options))
      return options
    })
  )
}

layer(Stopped.layer, { excludeTestServices: true, timeout })("A data directory", (it) => {
  it.effect(
    "is refused with a link or a pipe in place of a file, and its target is unchanged",
    () =>
      Effect.gen(function*() {
        const options = yield* Stopped
        for (const plant of links) yield* refuses(options, plant)
      }),
    timeout
  )

  it.effect(
    "loses the remains of an interrupted initdb, but not the targets of links in them",
    () =>
      Effect.gen(function*() {
        const options = yield* Stopped
        const { directory, folder } = yield* outside
        const places = ["a", "b"].map((name) => path.join(options.dataDirectory, `pgdata.init-${name}`))
        const [link, abandoned] = places as [string, string]
        fs.symlinkSync(folder, link)
        fs.mkdirSync(abandoned)
        fs.symlinkSync(folder, path.join(abandoned, "base"))
        const before = snapshot(directory)
        yield* Effect.scoped(start(options))
        assert.deepStrictEqual(snapshot(directory), before)
        assert.isFalse(fs.readdirSync(options.dataDirectory).some((name) => name.startsWith("pgdata.init-")))
      }),
    timeout
  )

  it.effect.runIf(isRoot)(
    "whose pid file names a process of another user neither adopts nor signals it",
    () =>
      Effect.gen(function*() {
        const options = yield* Stopped
        const pgdata = path.join(options.dataDirectory, "pgdata")
        const named = yield* processIn(pgdata)
        const lines = [named, pgdata, 0, 5432, path.join(options.dataDirectory, "socket"), "", "", "ready"]
        fs.writeFileSync(path.join(pgdata, "postmaster.pid"), lines.join("\n"))
        yield* Effect.scoped(Effect.gen(function*() {
          yield* assertAnswers(yield* start(options))
        }))
        assert.isTrue(isAlive(named))
      }),
    timeout
  )
})

describe("The record of the sandbox", () => {
  it.live("is not written through a symbolic link", () =>
    Effect.gen(function*() {
      const { absent, directory, file } = yield* outside
      const data = yield* temporaryDirectory
      for (const target of [file, absent]) {
        const record = path.join(data, `to-${path.basename(target)}`)
        fs.symlinkSync(target, record)
        const before = snapshot(directory)
        const opened = yield* Effect.result(Effect.scoped(openFileRecord(record)))
        assert.isTrue(Result.isFailure(opened))
        assert.deepStrictEqual(snapshot(directory), before)
      }
    }))
})

/** The id of a process of another user that works in a directory, and lives as long as the test. */
const processIn = (cwd: string) =>
  Effect.acquireRelease(
    // Node enters the directory, which is closed to that user, before it changes the user.
    Effect.sync(() => spawn("sleep", ["600"], { cwd, uid: another, gid: another, stdio: "ignore" })),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  ).pipe(Effect.map((child) => child.pid ?? 0))
