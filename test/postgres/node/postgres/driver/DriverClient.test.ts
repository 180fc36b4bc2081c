/**
 * The statements that readers start in one turn of the event loop leave in one write, and each gets its own answer. The
 * tests count the writes to the socket of `ReaderPool`.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as net from "node:net"
import { vi } from "vitest"
import { Database } from "../../../../../src/node/postgres/Database.ts"
import { ReaderPool } from "../../../../../src/node/postgres/Pools.ts"
import { gatewayDatabase } from "../../../../fixtures/postgres/GatewayDatabase.ts"
import { serverAddress, TestDatabase } from "../../../../fixtures/postgres/TestDatabase.ts"

/** A database behind sockets that record what is written to them. */
const recordedSockets = () => {
  const sockets: Array<net.Socket> = []
  const writes: Array<string> = []
  const stream = () => {
    const socket = net.connect(serverAddress())
    const write = socket.write.bind(socket)
    vi.spyOn(socket, "write").mockImplementation((chunk: Uint8Array | string) => {
      writes.push(Buffer.from(chunk as Uint8Array).toString("latin1"))
      return write(chunk)
    })
    sockets.push(socket)
    return socket
  }
  return { sockets, writes, connection: gatewayDatabase({ stream }) }
}

/** `ReaderPool` on such sockets. */
const recordedPool = () => {
  const { connection, ...recorded } = recordedSockets()
  return { ...recorded, pool: Layer.fresh(ReaderPool).pipe(Layer.provide(connection)) }
}

/** Starts each in a callback of the event loop of its own, as requests of several connections do. */
const inOneTurn = <A, E, R>(statements: ReadonlyArray<Effect.Effect<A, E, R>>) => {
  const callback = Effect.callback<void>((resume) => {
    setImmediate(() => resume(Effect.void))
  })
  return Effect.forEach(statements, (statement) => Effect.andThen(callback, statement), { concurrency: "unbounded" })
}

/** Records the keys that are set in all maps of a kind. */
const recordKeys = (prototype: { set: (key: never, value: never) => unknown }) => {
  const { set } = prototype
  const keys: Array<unknown> = []
  prototype.set = function(key, value) {
    keys.push(key)
    return set.call(this, key, value)
  }
  return {
    keys,
    restore: () => {
      prototype.set = set
    }
  }
}

/** The keys that a later run of a statement sets in maps: all of `WeakMap`s, and texts of statements. */
const keysOfRead = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const read = Effect.suspend(() => echo(sql, "read"))
  yield* Effect.andThen(read, read)
  const [weak, map] = [recordKeys(WeakMap.prototype), recordKeys(Map.prototype)]
  yield* Effect.ensuring(
    read,
    Effect.sync(() => {
      weak.restore()
      map.restore()
    })
  )
  return { weak: weak.keys, texts: map.keys.filter((key) => typeof key === "string" && key.startsWith("SELECT")) }
})

const echo = (sql: SqlClient.SqlClient, text: string) =>
  Effect.map(sql.unsafe<{ readonly text: string }>("SELECT $1::text AS text", [text]), (rows) => rows[0]!.text)

layer(TestDatabase, { excludeTestServices: true })("The statements of ReaderPool", (it) => {
  it.effect.prop(
    "leave in one write per turn, in the order in which they started, and each gets its own answer",
    [Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 32 }))).check(Schema.isMaxLength(8))],
    ([turns]) => {
      const { pool, writes } = recordedPool()
      return Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* echo(sql, "connects and prepares")
        for (const [turn, count] of turns.entries()) {
          writes.length = 0
          const texts = Array.from({ length: count }, (_, index) => `text ${turn}/${index};`)
          assert.deepStrictEqual(yield* inOneTurn(texts.map((text) => echo(sql, text))), texts)
          assert.lengthOf(writes, 1)
          assert.deepStrictEqual(writes[0]!.match(/text \d+\/\d+;/g), texts)
        }
      }).pipe(Effect.provide(pool))
    },
    { arbitrary: { runs: 20 } }
  )

  it.effect("leave in several writes with the driver alone: if this fails, `openPool` need not wait for the turn", () => {
    const { connection: recorded, writes } = recordedSockets()
    return Effect.gen(function*() {
      const { connection } = yield* Effect.provide(Database, recorded)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* echo(sql, "connects and prepares")
        writes.length = 0
        yield* inOneTurn(["one", "two", "three"].map((text) => echo(sql, text)))
        assert.lengthOf(writes, 3)
      }).pipe(Effect.provide(PgClient.layer({ ...connection, maxConnections: 1, multiplex: true })))
    })
  })

  it.effect("fail alone: the other statements of the same write succeed", () => {
    const { pool, writes } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const divide = (by: number) => Effect.exit(sql.unsafe("SELECT 1 / $1::int AS quotient", [by]))
      yield* divide(1)
      writes.length = 0
      const exits = yield* inOneTurn([1, 0, 1, 0, 1].map(divide))
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, false, true, false, true])
      assert.lengthOf(writes, 1)
    }).pipe(Effect.provide(pool))
  })

  it.effect("are not sent if they are interrupted before the turn ends", () => {
    const { pool, writes } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* echo(sql, "connects and prepares")
      writes.length = 0
      const [first, second] = [
        yield* Effect.forkChild(echo(sql, "interrupted"), { startImmediately: true }),
        yield* Effect.forkChild(echo(sql, "kept"), { startImmediately: true })
      ]
      yield* Fiber.interrupt(first)
      assert.strictEqual(yield* Fiber.join(second), "kept")
      assert.lengthOf(writes, 1)
      assert.notInclude(writes[0], "interrupted")
    }).pipe(Effect.provide(pool))
  })

  it.effect("all fail if their connection closes before the answers, and the next statement connects again", () => {
    const { pool, sockets, writes } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const sleep = Effect.exit(sql.unsafe("SELECT pg_sleep(60)"))
      yield* echo(sql, "connects")
      writes.length = 0
      const fiber = yield* Effect.forkChild(inOneTurn([sleep, sleep, sleep]))
      while (writes.length === 0) yield* Effect.sleep("1 millis")
      for (const socket of sockets) socket.destroy()
      assert.isTrue((yield* Fiber.join(fiber)).every(Exit.isFailure))
      assert.strictEqual(yield* echo(sql, "connected again"), "connected again")
      assert.lengthOf(sockets, 2)
    }).pipe(Effect.provide(pool))
  })

  it.effect("change no long-lived Map or WeakMap, which would keep garbage until a major collection", () => {
    const { pool } = recordedPool()
    return Effect.gen(function*() {
      assert.deepStrictEqual(yield* keysOfRead, { weak: [], texts: [] })
    }).pipe(Effect.provide(pool))
  })

  it.effect("would change both with the driver's own client: if this fails, `DriverClient` needs less", () =>
    Effect.gen(function*() {
      const { connection } = yield* Effect.provide(Database, gatewayDatabase())
      const keys = yield* Effect.provide(keysOfRead, PgClient.layer({ ...connection, maxConnections: 1 }))
      assert.isNotEmpty(keys.weak, "the cache of the compiler")
      assert.isNotEmpty(keys.texts, "the cache of prepared statements")
    }))

  it.effect("never commit what an error has rolled back, also if the transaction went on", () => {
    const { pool } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const failed = yield* Effect.flip(sql.withTransaction(Effect.ignore(sql`SELECT 1 / 0`)))
      assert.match(failed.message, /rolled back an aborted transaction/)
    }).pipe(Effect.provide(pool))
  })

  it.effect("run again if the server has dropped what it had prepared", () => {
    const { pool } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (let n = 0; n < 3; n++) {
        yield* sql.unsafe("DEALLOCATE ALL").unprepared
        for (const text of ["one", "two", "three"]) assert.strictEqual(yield* echo(sql, text), text)
      }
    }).pipe(Effect.provide(pool))
  })

  it.effect("are prepared once for each combination of parameter types", () => {
    const { pool } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const [value, type] of [[1, "integer"], [true, "boolean"], [1, "integer"], [0.5, "double precision"]]) {
        assert.deepStrictEqual(yield* sql.unsafe("SELECT pg_typeof($1)::text AS type", [value]), [{ type }])
      }
    }).pipe(Effect.provide(pool))
  })

  it.effect("may be more than a session keeps prepared: each is still one write", () => {
    const { pool, writes } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* echo(sql, "connects")
      writes.length = 0
      for (let n = 0; n < 400; n++) {
        // One statement is used all the time, and 150 others in turn.
        const text = `text ${n}`
        assert.strictEqual(yield* echo(sql, text), text)
        const other = n % 150
        assert.deepStrictEqual(yield* sql.unsafe(`SELECT $1::int + ${other} AS sum`, [n]), [{ sum: n + other }])
      }
      assert.lengthOf(writes, 800)
    }).pipe(Effect.provide(pool))
  })

  it.effect("share at most four connections", () => {
    const { pool, sockets } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const texts = Array.from({ length: 500 }, (_, index) => `text ${index}`)
      assert.deepStrictEqual(yield* inOneTurn(texts.map((text) => echo(sql, text))), texts)
      assert.isAtMost(sockets.length, 4)
    }).pipe(Effect.provide(pool))
  })

  it.effect("can be templates, positional rows, streams and transactions", () => {
    const { pool } = recordedPool()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`SELECT ${1}::int AS ${sql("n")}`, [{ n: 1 }])
      assert.deepStrictEqual(yield* sql`SELECT ${1}::int AS n`.unprepared, [{ n: 1 }])
      assert.deepStrictEqual(yield* sql`SELECT ${1}::int AS n`.values, [[1]])
      assert.deepStrictEqual(yield* sql`SELECT ${1}::int AS n`.valuesUnprepared, [[1]])
      assert.deepStrictEqual(yield* Stream.runCollect(sql`SELECT generate_series(1, 3) AS n`.stream), [
        { n: 1 },
        { n: 2 },
        { n: 3 }
      ])
      const pid = Effect.map(sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`, (rows) => rows[0]!.pid)
      const [one, others, same] = yield* sql.withTransaction(
        Effect.all([pid, Effect.all([pid], { concurrency: 1 }), sql.withTransaction(pid)])
      )
      assert.deepStrictEqual([one], others)
      assert.strictEqual(one, same)
    }).pipe(Effect.provide(pool))
  })
})
