/**
 * A `DATABASE_URL` with several hosts leads to the primary among them, before and after a failover, without a restart. The servers are
 * real: one is a primary, the other a standby that is promoted.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Redacted, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { createServer } from "node:net"
import { type Cluster, port, username } from "../../../src/node/embedded/Cluster.ts"
import * as DriverClient from "../../../src/node/postgres/driver/DriverClient.ts"
import { openPrimaryPool } from "../../../src/node/postgres/driver/primaryPool.ts"
import { listening } from "../../fixtures/http/listening.ts"
import { newCluster, runServer, servicesOn, standbyOf } from "../../fixtures/postgres/OwnServer.ts"

interface Host {
  readonly host: string
  readonly port: number
}

const urlOfHosts = (hosts: ReadonlyArray<Host>, more = "") =>
  Redacted.make(
    `postgres:///postgres?user=${username}&port=${hosts.map(({ port }) => port).join(",")}&host=${
      hosts.map(({ host }) => encodeURIComponent(host)).join(",")
    }${more}`
  )

const hostOf = ({ socketDirectory }: Cluster): Host => ({ host: socketDirectory, port })

const urlOf = (clusters: ReadonlyArray<Cluster>, more = "") => urlOfHosts(clusters.map(hostOf), more)

/** A host that takes connections and never answers, as one that was cut off from its network. */
const silentHost = Effect.map(listening(createServer()), ({ port }): Host => ({ host: "127.0.0.1", port }))

const clients = { "of single statements": {}, "of shared connections": { multiplex: true } }

const dataDirectory = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ readonly setting: string }>`SELECT setting FROM pg_settings WHERE name = 'data_directory'`,
    ([row]) => row!.setting
  )
)

/** A primary, and a standby with the same data. */
const servers = Effect.gen(function*() {
  const primary = yield* newCluster
  const standby = yield* standbyOf(primary)
  const life = yield* Scope.make()
  yield* Effect.addFinalizer((exit) => Scope.close(life, exit))
  yield* Scope.provide(runServer(primary), life)
  yield* runServer(standby)
  const promote = SqlClient.SqlClient.use((sql) => sql`SELECT pg_promote()`).pipe(
    Effect.provide(servicesOn(standby)),
    Effect.scoped
  )
  return { primary, standby, promote, stopPrimary: Scope.close(life, Exit.void) }
})

describe("A pool on several hosts", () => {
  for (const [kind, settings] of Object.entries(clients)) {
    it.live(
      `${kind} leaves a silent host, though each statement gives up before the connection does`,
      () =>
        Effect.gen(function*() {
          const cluster = yield* newCluster
          yield* runServer(cluster)
          const url = urlOfHosts([yield* silentHost, hostOf(cluster)], "&connect_timeout=3600")
          yield* Effect.gen(function*() {
            const [first, second] = [yield* Effect.timeoutOption(dataDirectory, "300 millis"), yield* dataDirectory]
            assert.isTrue(Option.isNone(first))
            assert.strictEqual(second, cluster.pgdata)
            const sql = yield* SqlClient.SqlClient
            // A statement that gives up on a session leaves its server where it is.
            assert.isTrue(Option.isNone(yield* Effect.timeoutOption(sql`SELECT pg_sleep(1)`, "300 millis")))
            assert.strictEqual(yield* dataDirectory, cluster.pgdata)
            assert.strictEqual(yield* sql.withTransaction(dataDirectory), cluster.pgdata)
          }).pipe(Effect.provide(Layer.fresh(DriverClient.layer({ url, maxConnections: 4, ...settings }, "test"))))
        }).pipe(Effect.scoped)
    )
  }

  it.live(
    "whose transactions give up before the connection does leaves a silent host, too",
    () =>
      Effect.gen(function*() {
        const cluster = yield* newCluster
        yield* runServer(cluster)
        const url = urlOfHosts([yield* silentHost, hostOf(cluster)], "&connect_timeout=3600")
        yield* Effect.gen(function*() {
          const transaction = SqlClient.SqlClient.use((sql) => sql.withTransaction(dataDirectory))
          assert.isTrue(Option.isNone(yield* Effect.timeoutOption(transaction, "300 millis")))
          assert.strictEqual(yield* transaction, cluster.pgdata)
        }).pipe(Effect.provide(Layer.fresh(DriverClient.layer({ url, maxConnections: 4 }, "test"))))
      }).pipe(Effect.scoped)
  )

  it.live("runs a statement once, also when it fails with an error of the connection", () =>
    Effect.gen(function*() {
      const { primary, standby } = yield* servers
      const pool = yield* openPrimaryPool([{ url: urlOf([primary]) }, { url: urlOf([standby]) }], false)
      const lost = new SqlError({ reason: new ConnectionError({ cause: new Error("lost") }) })
      let runs = 0
      const fails = () =>
        Effect.suspend(() => {
          runs++
          return Effect.fail(lost)
        })
      assert.strictEqual(yield* Effect.flip(pool.use(fails)), lost)
      assert.strictEqual(runs, 1)
    }).pipe(Effect.scoped))

  for (const [kind, settings] of Object.entries(clients)) {
    it.live(
      `${kind} uses the primary, waits for none while there is none, and finds the promoted one`,
      () =>
        Effect.gen(function*() {
          const { primary, promote, standby, stopPrimary } = yield* servers
          const url = urlOf([standby, primary])
          yield* Effect.gen(function*() {
            const together = Effect.all(Array.from({ length: 20 }, () => dataDirectory), { concurrency: "unbounded" })
            assert.deepStrictEqual([...new Set(yield* together)], [primary.pgdata])
            const sql = yield* SqlClient.SqlClient
            assert.deepStrictEqual(
              yield* sql.withTransaction(Effect.all([dataDirectory, dataDirectory])),
              [primary.pgdata, primary.pgdata]
            )
            // An error of a statement moves nothing.
            assert.strictEqual((yield* Effect.flip(sql`SELECT 1 / 0`)).reason._tag === "ConnectionError", false)
            assert.strictEqual(yield* dataDirectory, primary.pgdata)

            yield* stopPrimary
            const { reason } = yield* Effect.flip(dataDirectory)
            assert.strictEqual(reason._tag, "ConnectionError")
            // What is wrong with the primary, and not that the other server is a standby.
            assert.notMatch(String((reason.cause as Error).message), /in recovery/)
            yield* promote
            assert.strictEqual(yield* Effect.retry(dataDirectory, { times: 3 }), standby.pgdata)
            assert.deepStrictEqual([...new Set(yield* together)], [standby.pgdata])
          }).pipe(Effect.provide(Layer.fresh(DriverClient.layer({ url, maxConnections: 4, ...settings }, "test"))))
        }).pipe(Effect.scoped)
    )
  }

  it.live("refuses a standby, also as the only host, unless any server is asked for", () =>
    Effect.gen(function*() {
      const standby = yield* standbyOf(yield* newCluster)
      yield* runServer(standby)
      const read = (more: string) =>
        dataDirectory.pipe(
          Effect.provide(Layer.fresh(DriverClient.layer({ url: urlOf([standby], more), maxConnections: 1 }, "test"))),
          Effect.scoped
        )
      // A refused session goes back to the pool at once, although its scope stays open: the pool has only one.
      const pool = yield* openPrimaryPool([{ url: urlOf([standby]), maxConnections: 1 }], true)
      for (let n = 0; n < 3; n++) {
        const { reason } = yield* Effect.flip(pool.reserve)
        assert.match(reason.message ?? "", /in recovery/)
      }
      assert.strictEqual((yield* Effect.flip(read("&target_session_attrs=read-write"))).reason._tag, "ConnectionError")
      assert.strictEqual(yield* read("&target_session_attrs=any"), standby.pgdata)
      assert.strictEqual(yield* read(""), standby.pgdata)
    }).pipe(Effect.scoped))
})
