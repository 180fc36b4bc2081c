/**
 * After a crash, the next start recovers the committed data and leaves no process behind. The tests kill supervisors,
 * servers and initdb.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import {
  isAlive,
  postmastersOf,
  processesOf,
  query,
  spawnSupervisor,
  start,
  temporaryDirectory,
  timeout,
  until
} from "./Supervised.ts"

describe("after a crash", () => {
  it.live(
    "the next start adopts the running server of a killed owner, and stops it at its close",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* temporaryDirectory
        const owner = yield* spawnSupervisor({ dataDirectory })
        yield* query(yield* owner.ready, "CREATE TABLE kept AS SELECT 42 AS answer")
        const [orphan] = postmastersOf(dataDirectory)
        yield* owner.kill
        assert.isTrue(isAlive(orphan?.pid ?? 0))
        yield* Effect.scoped(Effect.gen(function*() {
          const server = yield* start({ dataDirectory })
          assert.deepStrictEqual(yield* query(server, "SELECT * FROM kept"), [{ answer: 42 }])
          assert.deepStrictEqual(postmastersOf(dataDirectory).map(({ pid }) => pid), [orphan?.pid])
        }))
        assert.isFalse(isAlive(orphan?.pid ?? 0))
      }),
    timeout
  )

  it.live("the next start waits until an orphaned server has shut down", () =>
    Effect.gen(function*() {
      const dataDirectory = yield* temporaryDirectory
      const owner = yield* spawnSupervisor({ dataDirectory })
      const client = yield* Effect.forkScoped(query(yield* owner.ready, "SELECT pg_sleep(600)"))
      yield* until(() => processesOf(dataDirectory).some(({ command }) => command.includes("SELECT")))
      const [orphan] = postmastersOf(dataDirectory)
      yield* owner.kill
      // A smart shutdown admits no client, and ends when the last client has left.
      process.kill(orphan?.pid ?? 0, "SIGTERM")
      const pidFile = path.join(dataDirectory, "pgdata", "postmaster.pid")
      yield* until(() => fs.readFileSync(pidFile, "utf8").includes("stopping"))
      const starting = yield* Effect.forkScoped(start({ dataDirectory }), { startImmediately: true })
      yield* Fiber.interrupt(client)
      const server = yield* Fiber.join(starting)
      assert.deepStrictEqual(yield* query(server, "SELECT 1 AS one"), [{ one: 1 }])
      assert.isFalse(isAlive(orphan?.pid ?? 0))
      assert.lengthOf(postmastersOf(dataDirectory), 1)
    }), timeout)

  it.live("a server that was killed with its owner recovers committed data", () =>
    Effect.gen(function*() {
      const dataDirectory = yield* temporaryDirectory
      const owner = yield* spawnSupervisor({ dataDirectory })
      yield* query(yield* owner.ready, "CREATE TABLE kept AS SELECT 42 AS answer")
      yield* killServer(dataDirectory, owner.kill)
      assert.isTrue(fs.existsSync(path.join(dataDirectory, "pgdata", "postmaster.pid")))
      assert.deepStrictEqual(yield* query(yield* start({ dataDirectory }), "SELECT * FROM kept"), [{ answer: 42 }])
    }), timeout)

  it.live("an owner logs that its server ended", () =>
    Effect.gen(function*() {
      const dataDirectory = yield* temporaryDirectory
      const logged: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
      yield* start({ dataDirectory }).pipe(Effect.provide(logger))
      const [postmaster] = postmastersOf(dataDirectory)
      process.kill(postmaster?.pid ?? 0, "SIGKILL")
      yield* until(() => logged.length > 0)
      assert.include(String(logged[0]), `PostgreSQL (pid ${postmaster?.pid}) ended unexpectedly`)
    }), timeout)

  it.live(
    "lock files that name a living process of another program do not stop the next start",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* temporaryDirectory
        const owner = yield* spawnSupervisor({ dataDirectory })
        const { socketDirectory } = yield* owner.ready
        yield* killServer(dataDirectory, owner.kill)
        const stranger = yield* livingProcess
        for (
          const file of [
            path.join(dataDirectory, "pgdata", "postmaster.pid"),
            path.join(socketDirectory, ".s.PGSQL.5432.lock")
          ]
        ) {
          const [, ...rest] = fs.readFileSync(file, "utf8").split("\n")
          fs.writeFileSync(file, [stranger, ...rest].join("\n"))
        }
        yield* Effect.scoped(Effect.gen(function*() {
          assert.deepStrictEqual(yield* query(yield* start({ dataDirectory }), "SELECT 1 AS one"), [{ one: 1 }])
        }))
        assert.isTrue(isAlive(stranger))
      }),
    timeout
  )

  it.live(
    "a kill during initdb leaves no incomplete cluster, and the next start removes its files",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* temporaryDirectory
        const unfinished = () => fs.readdirSync(dataDirectory).filter((name) => name.startsWith("pgdata.init-"))
        const first = yield* spawnSupervisor({ dataDirectory })
        yield* until(() => unfinished().some((name) => fs.existsSync(path.join(dataDirectory, name, "PG_VERSION"))))
        yield* first.kill
        assert.isFalse(fs.existsSync(path.join(dataDirectory, "pgdata")))
        assert.isNotEmpty(unfinished())
        const server = yield* start({ dataDirectory })
        assert.deepStrictEqual(yield* query(server, "SELECT 1 AS one"), [{ one: 1 }])
        assert.deepStrictEqual(unfinished(), [])
      }),
    timeout
  )
})

/** Kills owner and server together, as a power cut or the kernel's out-of-memory killer does. */
const killServer = Effect.fnUntraced(function*(dataDirectory: string, killOwner: Effect.Effect<void>) {
  const [postmaster] = postmastersOf(dataDirectory)
  yield* killOwner
  process.kill(postmaster?.pid ?? 0, "SIGKILL")
  yield* until(() => !isAlive(postmaster?.pid ?? 0))
})

/** The id of a process that lives as long as the test. */
const livingProcess = Effect.acquireRelease(
  Effect.sync(() => spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" })),
  (child) => Effect.sync(() => child.kill())
).pipe(Effect.map((child) => child.pid ?? 0))
