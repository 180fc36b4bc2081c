/**
 * LocalPostgres creates, serves and keeps a private cluster on a unix socket, with durable settings. The tests start it
 * on fresh and existing directories.
 */
import { assert, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { LocalPostgres } from "../../../src/node/embedded/LocalPostgres.ts"
import {
  assertAnswers,
  isAlive,
  postmastersOf,
  preparedDirectory,
  processesOf,
  query,
  start,
  temporaryDirectory,
  timeout
} from "./Supervised.ts"

const onLinux = process.platform === "linux"

const fresh = Layer.unwrap(Effect.map(temporaryDirectory, (directory) =>
  LocalPostgres.layer({
    dataDirectory: path.join(directory, "new"),
    settings: { fsync: "off", FSYNC: "off", listen_addresses: "*", work_mem: "9MB" }
  })))

layer(fresh, { excludeTestServices: true, timeout })("LocalPostgres on a fresh directory", (it) => {
  it.effect("answers on its unix socket, in its database", () =>
    Effect.gen(function*() {
      const server = yield* LocalPostgres
      const rows = yield* query(server, "SELECT current_database() AS name, current_user AS who")
      assert.deepStrictEqual(rows, [{ name: "gateway", who: server.username }])
      const [version] = yield* query(server, "SELECT current_setting('server_version_num')::int / 10000 AS major")
      assert.strictEqual(version?.["major"], server.major)
    }))

  it.effect("keeps fsync on and TCP off, with any settings", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* settings("fsync", "full_page_writes", "listen_addresses"), ["on", "on", ""])
    }))

  it.effect("applies the caller's other settings over its defaults", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* settings("work_mem", "TimeZone", "max_connections"), ["9MB", "UTC", "100"])
    }))

  it.effect("creates the cluster as UTF8, locale C, with checksums", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* settings("server_encoding", "data_checksums"), ["UTF8", "on"])
      const rows = yield* query(
        yield* LocalPostgres,
        "SELECT datcollate, datctype FROM pg_database WHERE datname = current_database()"
      )
      assert.deepStrictEqual(rows, [{ datcollate: "C", datctype: "C" }])
    }))

  it.effect.runIf(onLinux)("listens on no TCP port", () =>
    Effect.gen(function*() {
      const { dataDirectory } = yield* LocalPostgres
      const sockets = processesOf(dataDirectory).flatMap(({ pid }) => socketsOf(pid))
      assert.isNotEmpty(sockets)
      assert.deepStrictEqual(sockets.filter((socket) => tcpSockets().has(socket)), [])
    }))

  it.effect("denies other users access to its directories, its socket and its log", () =>
    Effect.gen(function*() {
      const { dataDirectory, port, socketDirectory } = yield* LocalPostgres
      const pgdata = path.join(dataDirectory, "pgdata")
      for (const directory of [dataDirectory, socketDirectory, pgdata]) {
        assert.strictEqual(modeOf(directory), 0o700)
        // Also for root, who runs the server as another user.
        assert.strictEqual(fs.statSync(directory).uid, process.geteuid?.())
      }
      assert.strictEqual(modeOf(path.join(socketDirectory, `.s.PGSQL.${port}`)), 0o700)
      assert.strictEqual(modeOf(path.join(dataDirectory, "postgres.log")), 0o600)
    }))

  it.effect("runs the server in a process group of its own, out of reach of Ctrl-C", () =>
    Effect.gen(function*() {
      const { dataDirectory } = yield* LocalPostgres
      const [postmaster] = postmastersOf(dataDirectory)
      assert.strictEqual(postmaster?.group, postmaster?.pid)
    }))

  it.effect.runIf(onLinux)("keeps the gateway's environment from the server", () =>
    Effect.gen(function*() {
      const { dataDirectory } = yield* LocalPostgres
      const [postmaster] = postmastersOf(dataDirectory)
      const names = fs.readFileSync(`/proc/${postmaster?.pid}/environ`, "utf8").split("\0").map((entry) =>
        entry.split("=")[0]
      )
      assert.includeMembers(["LC_ALL", "LD_LIBRARY_PATH", "PATH", "TZ", ""], names)
    }))

  it.effect("serves a second layer in the same process with the same server", () =>
    Effect.gen(function*() {
      const { dataDirectory } = yield* LocalPostgres
      yield* Effect.scoped(Effect.gen(function*() {
        const second = yield* start({ dataDirectory, database: `it's "another"` })
        assert.deepStrictEqual(yield* query(second, "SELECT current_database() AS name"), [{ name: `it's "another"` }])
        assert.lengthOf(postmastersOf(dataDirectory), 1)
      }))
      yield* assertAnswers(yield* LocalPostgres)
    }))
})

it.live(
  "keeps the data between two starts, and leaves no process and no socket",
  () =>
    Effect.gen(function*() {
      const dataDirectory = yield* preparedDirectory
      const [server, pids] = yield* Effect.scoped(Effect.gen(function*() {
        const server = yield* start({ dataDirectory })
        yield* query(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        return [server, processesOf(dataDirectory).map(({ pid }) => pid)] as const
      }))
      assert.isAbove(pids.length, 1)
      assert.deepStrictEqual(pids.filter(isAlive), [])
      assert.deepStrictEqual(fs.readdirSync(server.socketDirectory), [])
      assert.deepStrictEqual(yield* query(yield* start({ dataDirectory }), "SELECT * FROM kept"), [{ answer: 42 }])
    }),
  timeout
)

it.live(
  "accepts unusual characters in the path, and refuses a path that is too long for a socket",
  () =>
    Effect.gen(function*() {
      const near = path.join(yield* temporaryDirectory, `it's, a "dir"`)
      yield* assertAnswers(yield* start({ dataDirectory: near }))
      const error = yield* Effect.flip(Effect.scoped(start({ dataDirectory: path.join(near, "deep".repeat(25)) })))
      assert.include(error.message, "Use a data directory with a shorter path")
    }),
  timeout
)

it.live("repeats the server's log in its error when the server does not start", () =>
  Effect.gen(function*() {
    const dataDirectory = yield* preparedDirectory
    const error = yield* Effect.flip(Effect.scoped(start({ dataDirectory, settings: { work_mem: "a lot" } })))
    assert.include(error.message, `invalid value for parameter "work_mem": "a lot"`)
  }), timeout)

it.live("names both versions when another major version created the data directory", () =>
  Effect.gen(function*() {
    const dataDirectory = yield* temporaryDirectory
    fs.mkdirSync(path.join(dataDirectory, "pgdata"), { mode: 0o700 })
    fs.writeFileSync(path.join(dataDirectory, "pgdata", "PG_VERSION"), "14\n")
    const error = yield* Effect.flip(Effect.scoped(start({ dataDirectory })))
    assert.match(error.message, /made by PostgreSQL 14, but the one found here is PostgreSQL (15|16|17|18)/)
  }), timeout)

const settings = Effect.fnUntraced(function*(...names: ReadonlyArray<string>) {
  const server = yield* LocalPostgres
  return yield* Effect.forEach(
    names,
    (name) => Effect.map(query(server, `SHOW ${name}`), ([row]) => Object.values(row ?? {})[0])
  )
})

const modeOf = (file: string) => fs.statSync(file).mode & 0o777

/** Inodes of the open sockets of a process. Empty if the process has ended. */
const socketsOf = (pid: number) =>
  descriptorsOf(pid).flatMap((descriptor) => {
    const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${descriptor}`))?.[1]
    return inode === undefined ? [] : [inode]
  })

const descriptorsOf = (pid: number) => {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`)
  } catch {
    return []
  }
}

const linkOf = (link: string) => {
  try {
    return fs.readlinkSync(link)
  } catch {
    return "closed meanwhile"
  }
}

/** Inodes of all the machine's TCP sockets. */
const tcpSockets = () =>
  new Set(
    ["tcp", "tcp6"].flatMap((table) =>
      fs.readFileSync(`/proc/net/${table}`, "utf8").split("\n").slice(1).map((line) => line.trim().split(/\s+/)[9])
    )
  )
