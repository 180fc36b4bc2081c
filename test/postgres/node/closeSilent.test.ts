/**
 * A shared connection whose server has gone without a word is replaced within seconds, and one that is only slow or idle stays.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import * as net from "node:net"
import { inject } from "vitest"
import { Database } from "../../../src/node/Database.ts"
import * as ReaderClient from "../../../src/node/ReaderClient.ts"
import { gatewayDatabase } from "../../fixtures/GatewayDatabase.ts"
import { TestDatabase } from "../../fixtures/TestDatabase.ts"

/** A proxy to the test server that can silence the connections which are open, for ever. */
const silencingProxy = Effect.acquireRelease(
  Effect.promise(async () => {
    const { host, port } = inject("postgres")
    const pairs = new Set<{ readonly sockets: ReadonlyArray<net.Socket>; isSilent: boolean }>()
    const server = net.createServer((client) => {
      const upstream = net.connect(host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port })
      const pair = { sockets: [client, upstream], isSilent: false }
      pairs.add(pair)
      for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
        from.on("error", () => {})
        from.on("data", (bytes) => pair.isSilent || to.write(bytes))
        from.on("close", () => pair.isSilent || to.destroy())
      }
    })
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    return { server, pairs }
  }),
  ({ pairs, server }) =>
    Effect.sync(() => {
      for (const { sockets } of pairs) for (const socket of sockets) socket.destroy()
      server.close()
    })
).pipe(Effect.map(({ pairs, server }) => ({
  port: (server.address() as net.AddressInfo).port,
  opened: () => pairs.size,
  silence: () => {
    for (const pair of pairs) pair.isSilent = true
  }
})))

const one = SqlClient.SqlClient.use((sql) => sql`SELECT 1`)

layer(TestDatabase, { excludeTestServices: true })("A shared connection", (it) => {
  it.effect(
    "is replaced when its server answers nothing any more, and stays while it is slow or idle",
    () =>
      Effect.gen(function*() {
        const proxy = yield* silencingProxy
        const { connection } = yield* Effect.provide(Database, gatewayDatabase({ host: "127.0.0.1", port: proxy.port }))
        const pool = ReaderClient.layer({
          ...connection,
          maxConnections: 1,
          startupParameters: { statement_timeout: "500" }
        })
        yield* Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          yield* one
          // The server ends it, and the connection is as good as before.
          assert.strictEqual((yield* Effect.flip(sql`SELECT pg_sleep(5)`)).reason._tag, "StatementTimeoutError")
          yield* Effect.sleep("2500 millis")
          yield* one
          assert.strictEqual(proxy.opened(), 1)

          proxy.silence()
          // A request that gives up leaves its statement on the connection.
          assert.isTrue(Option.isNone(yield* Effect.timeoutOption(one, "100 millis")))
          const lost = yield* Effect.flip(one)
          assert.match(String((lost.reason.cause as Error).message), /does not answer/)
          yield* Effect.retry(one, { schedule: Schedule.spaced("50 millis"), times: 5 })
          assert.strictEqual(proxy.opened(), 2)
        }).pipe(Effect.provide(Layer.fresh(pool)))
      }).pipe(Effect.scoped),
    30_000
  )
})
