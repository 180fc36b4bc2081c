/** Connections are counted as PostgreSQL sees them, in pools that share connections and in those that do not. */
import type { PgPool } from "@effect/sql-pg/PgPool"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Metric } from "effect"
import { SqlClient } from "effect/sql"
import * as PoolMetrics from "../../../src/metrics/PoolMetrics.ts"
import * as DriverClient from "../../../src/node/postgres/driver/DriverClient.ts"
import { countPool } from "../../../src/node/postgres/driver/openPool.ts"
import { counted } from "../../fixtures/metrics/Scrape.ts"
import { createDatabase, Platform, server } from "../../fixtures/postgres/TestDatabase.ts"

const clients = [["exclusive", {}], ["shared", { multiplex: true }]] as const

/** Runs a test on a pool of two connections. `holding` holds the lock for which `waiting` waits. */
const withPool = <A, E>(
  kind: typeof clients[number][1],
  test: (sql: SqlClient.SqlClient, read: ReturnType<typeof counted>["read"]) => Effect.Effect<A, E>,
  changes: object = {}
) =>
  Effect.gen(function*() {
    const config = {
      ...server(),
      database: yield* createDatabase({ empty: true }),
      maxConnections: 2,
      ...kind,
      ...changes
    }
    const { layer, read } = counted(Layer.fresh(DriverClient.layer(config, "tested")), PoolMetrics.layer)
    return yield* Effect.flatMap(SqlClient.SqlClient, (sql) => test(sql, read)).pipe(Effect.provide(layer))
  }).pipe(Effect.scoped, Effect.provide(Platform))

const values = (read: ReturnType<typeof counted>["read"]) =>
  Effect.map(read, ({ total }) => ({
    connections: total("gateway_db_pool_connections"),
    in_use: total("gateway_db_pool_connections_in_use"),
    waiting: total("gateway_db_pool_waiting"),
    errors: total("gateway_db_pool_errors_total")
  }))

describe("The metrics of pools", () => {
  it.live("name the pools in which statements wait for a connection, or gave up waiting a moment ago", () =>
    Effect.gen(function*() {
      const pools = (yield* PoolMetrics.PoolMetrics)!
      const silent = { use: () => Effect.never, get: Effect.never } as unknown as PgPool
      const waiting = yield* Effect.forkChild(countPool(silent, pools.pool("lists")).use(() => Effect.void))
      pools.pool("reader")
      yield* Effect.yieldNow
      assert.deepStrictEqual(pools.exhausted(), ["lists"])
      yield* Fiber.interrupt(waiting)
      assert.deepStrictEqual([pools.pool("lists").waiting, pools.exhausted()], [0, ["lists"]])
      pools.pool("lists").gaveUpAt -= 1001
      assert.deepStrictEqual(pools.exhausted(), [])
    }).pipe(Effect.provide(PoolMetrics.layer), Effect.provideService(Metric.MetricRegistry, new Map())))

  it.live.each(clients)(
    "follow transactions that use all connections: %s",
    ([, kind]) =>
      withPool(kind, (sql, read) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* values(read), { connections: 0, in_use: 0, waiting: 0, errors: 0 })
          yield* sql`SELECT 1`
          assert.deepStrictEqual(yield* values(read), { connections: 1, in_use: 0, waiting: 0, errors: 0 })
          const released = Promise.withResolvers<void>()
          const held = sql.withTransaction(Effect.andThen(sql`SELECT 1`, Effect.promise(() => released.promise)))
          const holders = yield* Effect.forkChild(Effect.all([held, held, held], { concurrency: "unbounded" }))
          const full = { connections: 2, in_use: 2, waiting: 1, errors: 0 }
          const isFull = Effect.map(values(read), (found) => JSON.stringify(found) === JSON.stringify(full))
          yield* Effect.repeat(Effect.delay(isFull, "5 millis"), { until: (isTrue) => isTrue })
          released.resolve()
          yield* Fiber.join(holders)
          assert.deepStrictEqual(yield* values(read), { ...full, in_use: 0, waiting: 0 })
        }))
  )

  it.live.each(clients)(
    "count no statement as waiting or running after its interruption: %s",
    ([, kind]) =>
      withPool(kind, (sql, read) =>
        Effect.gen(function*() {
          const sleeping = yield* Effect.forkChild(sql`SELECT pg_sleep(60)`)
          const inUse = Effect.map(values(read), ({ in_use }) => in_use)
          yield* Effect.repeat(Effect.delay(inUse, "5 millis"), { until: (used) => used === 1 })
          yield* Fiber.interrupt(sleeping)
          const after = yield* values(read)
          assert.deepStrictEqual([after.in_use, after.waiting, after.errors], [0, 0, 0])
        }))
  )

  it.live.each(clients)(
    "count a database that cannot be reached, and not an error of a statement: %s",
    ([, kind]) =>
      Effect.gen(function*() {
        yield* withPool(kind, (sql, read) =>
          Effect.gen(function*() {
            yield* Effect.flip(sql`SELECT 1 / 0`)
            assert.strictEqual((yield* values(read)).errors, 0)
          }))
        yield* withPool(kind, (sql, read) =>
          Effect.gen(function*() {
            yield* Effect.flip(sql`SELECT 1`)
            assert.deepStrictEqual(yield* values(read), { connections: 0, in_use: 0, waiting: 0, errors: 1 })
          }), { host: "127.0.0.1", port: 1 })
      })
  )
})
