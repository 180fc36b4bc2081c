/**
 * Of the processes that share a data directory, one owns the server and another takes over when the owner ends. The
 * tests start supervisors and close or kill them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import {
  assertAnswers,
  childrenOf,
  isAlive,
  ownedDirectory,
  postmastersOf,
  spawnSupervisor,
  start,
  temporaryDirectory,
  timeout,
  until
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
        const { dataDirectory, owner } = yield* ownedDirectory()
        const guest = yield* spawnSupervisor({ dataDirectory })
        const server = yield* guest.ready
        yield* until(() => childrenOf(guest.child.pid ?? 0).some(({ command }) => command.startsWith("flock ")))
        const before = postmastersOf(dataDirectory)
        yield* owner.kill
        // The program that waits for the lock ends when the guest holds the lock.
        yield* until(() => childrenOf(guest.child.pid ?? 0).length === 0)
        yield* assertAnswers(server)
        yield* guest.close
        assert.lengthOf(before, 1)
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
