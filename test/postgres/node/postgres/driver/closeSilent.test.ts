/**
 * A shared connection whose server disappeared without closing it is replaced within seconds, and one that is only slow or idle stays.
 */
import * as PgPool from "@effect/sql-pg/PgPool"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Database } from "../../../../../src/node/postgres/Database.ts"
import * as DriverClient from "../../../../../src/node/postgres/driver/DriverClient.ts"
import { gatewayDatabase } from "../../../../fixtures/postgres/GatewayDatabase.ts"
import { serverAddress, TestDatabase } from "../../../../fixtures/postgres/TestDatabase.ts"
import { proxyTo } from "../../../../fixtures/processes/Proxy.ts"

const one = SqlClient.SqlClient.use((sql) => sql`SELECT 1`)

/** The settings of a shared connection through a proxy, which counts the connections. */
const proxied = Effect.gen(function*() {
  const counts = { opened: 0 }
  const proxy = yield* proxyTo(serverAddress(), () => {
    counts.opened++
    return () => {}
  })
  const { connection } = yield* Effect.provide(Database, gatewayDatabase({ host: "127.0.0.1", port: proxy.port }))
  const shared = { maxConnections: 1, multiplex: true, startupParameters: { statement_timeout: "500" } }
  return { counts, proxy, config: { ...connection, ...shared } }
})

layer(TestDatabase, { excludeTestServices: true })("A shared connection", (it) => {
  it.effect(
    "whose server is silent is kept by the driver itself: if this fails, `closeSilent` can go",
    () =>
      Effect.gen(function*() {
        const { config, proxy } = yield* proxied
        const pool = yield* PgPool.make(config)
        const one = pool.use((session) => session.query("SELECT 1"))
        yield* one
        proxy.strike("forgotten")
        assert.isTrue(Option.isNone(yield* Effect.timeoutOption(one, "2500 millis")))
      }).pipe(Effect.scoped)
  )

  it.effect(
    "is replaced when its server answers nothing any more, and stays while it is slow or idle",
    () =>
      Effect.gen(function*() {
        const { config, counts, proxy } = yield* proxied
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
