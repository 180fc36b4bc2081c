/**
 * Of the processes that share a data directory, one owns the server and another takes over when the owner ends. The
 * tests start supervisors and close or kill them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, Schedule } from "effect"
import { until } from "../../fixtures/until.ts"
import {
  assertAnswers,
  isAlive,
  ownedDirectory,
  postmastersOf,
  spawnSupervisor,
  start,
  temporaryDirectory,
  timeout
} from "./Supervised.ts"

describe("processes that share a data directory", () => {
  it.live("all connect to one server when they start concurrently on a fresh directory", () =>
    Effect.gen(function*() {
      const dataDirectory = yield* temporaryDirectory
      const supervisors = yield* Effect.all([1, 2, 3].map(() => spawnSupervisor({ dataDirectory })))
      const servers = yield* Effect.all(supervisors.map(({ ready }) => ready), { concurrency: "unbounded" })
      for (const server of servers) yield* assertAnswers(server)
      assert.lengthOf(postmastersOf(dataDirectory), 1)
    }), timeout)

  it.live(
    "include a guest that restarts the server in place when its owner closes, and stops it at its own close",
    () =>
      Effect.gen(function*() {
        const { dataDirectory, owner, postmaster } = yield* ownedDirectory()
        yield* Effect.scoped(Effect.gen(function*() {
          const guest = yield* start({ dataDirectory })
          yield* owner.close
          yield* assertAnswers(guest).pipe(Effect.retry(Schedule.spaced("20 millis")))
          assert.notStrictEqual(postmastersOf(dataDirectory)[0]?.pid, postmaster)
        }))
        assert.deepStrictEqual(postmastersOf(dataDirectory), [])
      }),
    timeout
  )

  it.live.runIf(process.platform === "linux")(
    "include a guest that adopts the running server when its owner is killed, and stops it at its own close",
    () =>
      Effect.gen(function*() {
        const { dataDirectory, owner, postmaster } = yield* ownedDirectory()
        const logged: Array<string> = []
        const logger = Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
        yield* Effect.scoped(Effect.gen(function*() {
          const guest = yield* start({ dataDirectory }).pipe(Effect.provide(logger))
          yield* owner.kill
          yield* until(() => logged.includes("This process has taken over PostgreSQL"))
          yield* assertAnswers(guest)
          assert.deepStrictEqual(postmastersOf(dataDirectory).map(({ pid }) => pid), [postmaster])
        }))
        assert.deepStrictEqual(postmastersOf(dataDirectory), [])
      }),
    timeout
  )

  it.live("stop their server also when they end without closing their scopes", () =>
    Effect.gen(function*() {
      const { owner, postmaster } = yield* ownedDirectory({
        NODE_OPTIONS: `--import=data:text/javascript,${exitOnUsr2}`
      })
      owner.child.kill("SIGUSR2")
      yield* until(() => !isAlive(postmaster))
    }), timeout)
})

const exitOnUsr2 = `process.on('SIGUSR2',()=>process.exit(3))`
