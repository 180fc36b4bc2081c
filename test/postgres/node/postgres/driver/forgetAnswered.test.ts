/** A shared connection that is never idle keeps few answered statements, and each statement gets its own answer. */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Schema } from "effect"
import * as net from "node:net"
import { Database } from "../../../../../src/node/postgres/Database.ts"
import { forgetAnswered } from "../../../../../src/node/postgres/driver/sharedSessions.ts"
import { gatewayDatabase } from "../../../../fixtures/postgres/GatewayDatabase.ts"
import { serverAddress, TestDatabase } from "../../../../fixtures/postgres/TestDatabase.ts"

/** A pool of one shared connection, and the sockets that it opened. */
const makePool = Effect.gen(function*() {
  const sockets: Array<net.Socket> = []
  const stream = () => {
    const socket = net.connect(serverAddress())
    sockets.push(socket)
    return socket
  }
  const { connection } = yield* Effect.provide(Database, gatewayDatabase({ stream }))
  return { pool: yield* PgPool.make({ ...connection, multiplex: true, maxConnections: 1 }), sockets }
})

/** What the driver still refers to. Its types do not show it: hence the cast. */
const queueOf = (session: PgConnection.PgConnection) =>
  session as unknown as { readonly pipelineInFlight: ReadonlyArray<unknown>; readonly pipelineHead: number }

/** Runs a statement and returns its text. */
const run = (pool: PgPool.PgPool, text: string) =>
  pool.use((session) => {
    forgetAnswered(session)
    const statement = text.startsWith("fail")
      ? "SELECT $1::text, 1 / (length($1) - length($1))"
      : "SELECT $1::text AS text"
    return Effect.map(session.query(statement, [text]), ({ rows }) => (rows[0] as { readonly text: string }).text)
  })

const start = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

layer(TestDatabase, { excludeTestServices: true })("The statements of a connection that is never idle", (it) => {
  it.effect("are kept only until 64 are answered, and keep no answer", () =>
    Effect.gen(function*() {
      const count = 200
      const [{ pool }, { pool: others }] = [yield* makePool, yield* makePool]
      // Each statement waits until the test releases its lock.
      yield* others.use((other) =>
        other.query("SELECT pg_advisory_lock(n) FROM generate_series(0, $1::int) n", [count])
      )
      const release = (n: number) => others.use((other) => other.query("SELECT pg_advisory_unlock($1::int)", [n]))
      let [longest, answered] = [0, 0]
      const startWaiting = (n: number) =>
        Effect.andThen(
          start(pool.use((session) => {
            const { pipelineHead, pipelineInFlight } = queueOf(session)
            longest = Math.max(longest, pipelineInFlight.length)
            if (n > 0) assert.strictEqual(pipelineInFlight.length - pipelineHead, 1, "the statement before still runs")
            forgetAnswered(session)
            const queue = queueOf(session)
            answered += queue.pipelineInFlight.slice(0, queue.pipelineHead).filter((entry) =>
              entry !== undefined
            ).length
            return Effect.map(
              session.query("SELECT $1::int AS n, pg_advisory_xact_lock($1::int)", [n]),
              ({ rows }) => (rows[0] as { readonly n: number }).n
            )
          })),
          // The connection writes its statements in a microtask.
          (fiber) => Effect.as(Effect.promise(() => Promise.resolve()), fiber)
        )
      yield* run(pool, "connects")
      let previous = yield* startWaiting(0)
      for (let n = 1; n <= count; n++) {
        const next = yield* startWaiting(n)
        yield* release(n - 1)
        assert.strictEqual(yield* Fiber.join(previous), n - 1)
        previous = next
      }
      yield* release(count)
      assert.strictEqual(yield* Fiber.join(previous), count)
      assert.isAtMost(longest, 64 + 2)
      assert.strictEqual(answered, 0)
    }))

  it.effect("are kept by the driver itself: if this fails, `forgetAnswered` can go", () =>
    Effect.gen(function*() {
      const { pool, sockets } = yield* makePool
      yield* run(pool, "connects")
      const first = yield* start(pool.use((session) => session.query("SELECT 1")))
      yield* start(pool.use((session) => session.query("SELECT pg_sleep(60)")))
      yield* Fiber.join(first)
      const { pipelineHead, pipelineInFlight } = yield* pool.use((session) => Effect.succeed(queueOf(session)))
      assert.strictEqual(pipelineHead, 1, "one is answered")
      assert.isDefined(pipelineInFlight[0], "and kept")
      sockets[0]!.destroy()
    }))

  it.effect.prop(
    "each get their own answer, whether others fail or are interrupted",
    [Schema.Array(Schema.Literals(["text", "fail", "interrupt"])).check(Schema.isMaxLength(200))],
    ([kinds]) =>
      Effect.gen(function*() {
        const { pool } = yield* makePool
        yield* run(pool, "connects")
        const fibers = []
        for (const [n, kind] of kinds.entries()) {
          const fiber = yield* start(run(pool, `${kind} ${n}`))
          // Some are interrupted before they are written, others after that.
          if (n % 3 === 0) yield* Effect.promise(() => Promise.resolve())
          if (kind === "interrupt") yield* start(Fiber.interrupt(fiber))
          fibers.push(fiber)
          if (n >= 3) yield* Fiber.await(fibers[n - 3]!)
        }
        for (const [n, kind] of kinds.entries()) {
          const exit = yield* Fiber.await(fibers[n]!)
          if (kind === "text") assert.deepStrictEqual(exit, Exit.succeed(`text ${n}`))
          else assert.isTrue(Exit.isFailure(exit))
        }
        assert.strictEqual(yield* run(pool, "afterwards"), "afterwards")
      }),
    { arbitrary: { runs: 20 } }
  )

  it.effect("all fail if the connection dies, and the next statement gets its answer on a new one", () =>
    Effect.gen(function*() {
      const { pool, sockets } = yield* makePool
      yield* run(pool, "connects")
      // The first is answered while the others wait behind a statement that does not end.
      const first = yield* start(run(pool, "first"))
      const sleeping = yield* start(pool.use((session) => session.query("SELECT pg_sleep(60)")))
      assert.strictEqual(yield* Fiber.join(first), "first")
      const waiting = [yield* start(run(pool, "second")), yield* start(run(pool, "third"))]
      sockets[0]!.destroy()
      assert.isTrue(Exit.isFailure(yield* Fiber.await(sleeping)))
      for (const fiber of waiting) assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
      for (const text of ["one", "two"]) assert.strictEqual(yield* run(pool, text), text)
      assert.lengthOf(sockets, 2)
    }))
})
