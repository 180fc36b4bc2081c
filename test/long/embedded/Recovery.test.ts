/**
 * After a crash, the next start recovers the committed data and leaves no process behind. The tests kill supervisors,
 * servers and initdb.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { until } from "../../fixtures/until.ts"
import {
  assertAnswers,
  isAlive,
  ownedDirectory,
  postmastersOf,
  preparedDirectory,
  processesOf,
  query,
  spawnSupervisor,
  start,
  temporaryDirectory,
  timeout
} from "./Supervised.ts"

describe("after a crash", () => {
  it.live(
    "the next start adopts the running server of a killed owner, and stops it at its close",
    () =>
      Effect.gen(function*() {
        const { dataDirectory, owner, postmaster, server } = yield* ownedDirectory()
        yield* query(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        yield* owner.kill
        assert.isTrue(isAlive(postmaster))
        yield* Effect.scoped(Effect.gen(function*() {
          const adopted = yield* start({ dataDirectory })
          assert.deepStrictEqual(yield* query(adopted, "SELECT * FROM kept"), [{ answer: 42 }])
          assert.deepStrictEqual(postmastersOf(dataDirectory).map(({ pid }) => pid), [postmaster])
        }))
        assert.isFalse(isAlive(postmaster))
      }),
    timeout
  )

  it.live("the next start waits until an orphaned server has shut down", () =>
    Effect.gen(function*() {
      const { dataDirectory, owner, postmaster, server: orphan } = yield* ownedDirectory()
      const client = yield* Effect.forkScoped(query(orphan, "SELECT pg_sleep(600)"))
      yield* until(() => processesOf(dataDirectory).some(({ command }) => command.includes("SELECT")))
      yield* owner.kill
      // A smart shutdown admits no client, and ends when the last client has left.
      process.kill(postmaster, "SIGTERM")
      const pidFile = path.join(dataDirectory, "pgdata", "postmaster.pid")
      yield* until(() => fs.readFileSync(pidFile, "utf8").includes("stopping"))
      const starting = yield* Effect.forkScoped(start({ dataDirectory }), { startImmediately: true })
      yield* Fiber.interrupt(client)
      const server = yield* Fiber.join(starting)
      yield* assertAnswers(server)
      assert.isFalse(isAlive(postmaster))
      assert.lengthOf(postmastersOf(dataDirectory), 1)
    }), timeout)

  it.live("an owner logs that its server ended", () =>
    Effect.gen(function*() {
      const dataDirectory = yield* preparedDirectory
      const logged: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
      yield* start({ dataDirectory }).pipe(Effect.provide(logger))
      const [postmaster] = postmastersOf(dataDirectory)
      process.kill(postmaster?.pid ?? 0, "SIGKILL")
      yield* until(() => logged.length > 0)
      assert.include(String(logged[0]), `PostgreSQL (pid ${postmaster?.pid}) ended unexpectedly`)
    }), timeout)

  it.live(
    "a server that was killed with its owner recovers committed data, also when its lock files name a process of another program",
    () =>
      Effect.gen(function*() {
        const owned = yield* ownedDirectory()
        const { dataDirectory, server: { socketDirectory } } = owned
        yield* query(owned.server, "CREATE TABLE kept AS SELECT 42 AS answer")
        yield* killBoth(owned)
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
          assert.deepStrictEqual(yield* query(yield* start({ dataDirectory }), "SELECT * FROM kept"), [{ answer: 42 }])
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
        yield* assertAnswers(server)
        assert.deepStrictEqual(unfinished(), [])
      }),
    timeout
  )
})

/** Kills owner and server together, as a power cut or the kernel's out-of-memory killer does. */
const killBoth = Effect.fnUntraced(function*({ owner, postmaster }: Effect.Success<ReturnType<typeof ownedDirectory>>) {
  yield* owner.kill
  process.kill(postmaster, "SIGKILL")
  yield* until(() => !isAlive(postmaster))
})

/** The id of a process that lives as long as the test. */
const livingProcess = Effect.acquireRelease(
  Effect.sync(() => spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" })),
  (child) => Effect.sync(() => child.kill())
).pipe(Effect.map((child) => child.pid ?? 0))
