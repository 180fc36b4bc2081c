/**
 * A connection whose server disappeared without closing it is replaced within seconds, and one that is only slow or idle stays. Effect
 * runs the statements of a transaction itself uninterruptibly, so no deadline of a caller ends them.
 */
import * as PgPool from "@effect/sql-pg/PgPool"
import { assert, layer } from "@effect/vitest"
import { Data, Effect, Fiber, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Database } from "../../../../../src/node/postgres/Database.ts"
import * as DriverClient from "../../../../../src/node/postgres/driver/DriverClient.ts"
import { orUnavailable, StoreUnavailable } from "../../../../../src/services/StoreUnavailable.ts"
import { gatewayDatabase } from "../../../../fixtures/postgres/GatewayDatabase.ts"
import { serverAddress, TestDatabase } from "../../../../fixtures/postgres/TestDatabase.ts"
import { proxyTo } from "../../../../fixtures/processes/Proxy.ts"

const one = SqlClient.SqlClient.use((sql) => sql`SELECT 1`)

/** The settings of one connection through a proxy, which counts the connections. From a statement with this text on, the server is silent. */
const proxied = (multiplex: boolean, lostAt?: string) =>
  Effect.gen(function*() {
    const counts = { opened: 0 }
    const proxy = yield* proxyTo(serverAddress(), () => {
      counts.opened++
      return (bytes) => lostAt !== undefined && counts.opened === 1 && bytes.includes(lostAt) ? "forgotten" : undefined
    })
    const { connection } = yield* Effect.provide(Database, gatewayDatabase({ host: "127.0.0.1", port: proxy.port }))
    const settings = { maxConnections: 1, multiplex, startupParameters: { statement_timeout: "500" } }
    return { counts, proxy, config: { ...connection, ...settings } }
  })

class Refused extends Data.TaggedError("Refused") {}

/** A transaction with a statement in a savepoint. */
const transaction = (isRefused: boolean) =>
  SqlClient.SqlClient.use((sql) =>
    sql.withTransaction(Effect.andThen(
      sql.withTransaction(sql`SELECT 1`),
      isRefused ? Effect.fail(new Refused()) : Effect.void
    ))
  )

// Each test has its own proxy and pool.
layer(TestDatabase, { excludeTestServices: true, concurrent: true })("A connection", (it) => {
  it.effect("is replaced when its server answers no statement of a transaction, whose outcome is then unknown", () => {
    const cases = ["BEGIN", "SAVEPOINT", "SELECT 1", "RELEASE", "ROLLBACK", "COMMIT"].flatMap((lostAt) =>
      [false, true].map((multiplex) => ({ lostAt, multiplex }))
    )
    return Effect.forEach(cases, ({ lostAt, multiplex }) =>
      Effect.gen(function*() {
        const { config, proxy } = yield* proxied(multiplex, lostAt)
        yield* Effect.gen(function*() {
          const fiber = yield* Effect.forkDetach(orUnavailable(transaction(lostAt === "ROLLBACK")))
          // One that would not end cannot be interrupted either.
          const ended = yield* Effect.timeoutOption(Fiber.await(fiber), "30 seconds")
          if (Option.isNone(ended)) proxy.close()
          assert.isTrue(Option.isSome(ended), lostAt)
          assert.instanceOf(yield* Effect.flip(Fiber.join(fiber)), StoreUnavailable, lostAt)
          yield* one
        }).pipe(Effect.provide(Layer.fresh(DriverClient.layer(config, "tested"))))
      }).pipe(Effect.scoped), { concurrency: "unbounded" })
  })

  it.effect("stays while a transaction that set its own statement_timeout is slow, and is watched again after it", () =>
    Effect.gen(function*() {
      const { config, counts, proxy } = yield* proxied(false)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql.withTransaction(Effect.andThen(sql`SET LOCAL statement_timeout = 0`, sql`SELECT pg_sleep(3)`))
        yield* one
        assert.strictEqual(counts.opened, 1)
        proxy.strike("forgotten")
        assert.strictEqual((yield* Effect.flip(sql.withTransaction(one))).reason._tag, "ConnectionError")
      }).pipe(Effect.provide(Layer.fresh(DriverClient.layer(config, "tested"))))
    }).pipe(Effect.scoped))

  it.effect("stays while a statement without a transaction is slow: its commit may wait for a standby", () =>
    Effect.gen(function*() {
      const { config, counts } = yield* proxied(false)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        // A transaction before it leaves no limit behind.
        yield* transaction(false)
        // The server ends such a wait as little as this one.
        yield* sql`SET statement_timeout = 0`
        yield* sql`SELECT pg_sleep(3)`
        assert.strictEqual(counts.opened, 1)
      }).pipe(Effect.provide(Layer.fresh(DriverClient.layer(config, "tested"))))
    }).pipe(Effect.scoped))

  it.effect(
    "that is shared and whose server is silent is kept by the driver itself: if this fails, `closeSilent` can go",
    () =>
      Effect.gen(function*() {
        const { config, proxy } = yield* proxied(true)
        const pool = yield* PgPool.make(config)
        const one = pool.use((session) => session.query("SELECT 1"))
        yield* one
        proxy.strike("forgotten")
        assert.isTrue(Option.isNone(yield* Effect.timeoutOption(one, "2500 millis")))
      }).pipe(Effect.scoped)
  )

  it.effect(
    "that is shared is replaced when its server answers nothing any more, and stays while it is slow or idle",
    () =>
      Effect.gen(function*() {
        const { config, counts, proxy } = yield* proxied(true)
        const pool = DriverClient.layer(config, "tested")
        yield* Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          yield* one
          // The server ends it, and the connection is as good as before.
          assert.strictEqual((yield* Effect.flip(sql`SELECT pg_sleep(5)`)).reason._tag, "StatementTimeoutError")
          yield* Effect.sleep("2500 millis")
          yield* one
          assert.strictEqual(counts.opened, 1)

          proxy.strike("forgotten")
          // A request that gives up leaves its statement on the connection.
          assert.isTrue(Option.isNone(yield* Effect.timeoutOption(one, "100 millis")))
          const lost = yield* Effect.flip(one)
          assert.match(String((lost.reason.cause as Error).message), /does not answer/)
          yield* Effect.retry(one, { schedule: Schedule.spaced("50 millis"), times: 5 })
          assert.strictEqual(counts.opened, 2)
        }).pipe(Effect.provide(Layer.fresh(pool)))
      }).pipe(Effect.scoped)
  )
})
