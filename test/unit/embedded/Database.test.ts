import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Database } from "../../../src/node/Database.ts"
import { ProofPool, ProvisioningPool, ReaderPool, WorkerPool, WriterPool } from "../../../src/node/Pools.ts"

const pools = { ReaderPool, ProofPool, ProvisioningPool, WriterPool, WorkerPool }

/** No connection is made before there is something to ask. */
const nowhere = Database.layer({
  databaseUrl: Option.some(Redacted.make("postgres://nobody@127.0.0.1:1/nothing")),
  dataDir: ""
})

describe("The pools of a process", () => {
  it.effect("are one for all who are given the same, and another for everybody else", () =>
    Effect.gen(function*() {
      const clients: Array<SqlClient.SqlClient> = []
      const user = () => Layer.effectDiscard(Effect.map(SqlClient.SqlClient, (client) => clients.push(client)))
      const users = Object.values(pools).flatMap((pool) => [pool, pool].map((pool) => Layer.provide(user(), pool)))
      yield* Layer.build(Layer.mergeAll(Layer.empty, ...users).pipe(Layer.provide(nowhere)))
      assert.lengthOf(clients, 10)
      assert.strictEqual(new Set(clients).size, 5)
    }))

  it.effect("keep no connection that writes for longer than half a minute, because nobody may know that it is dead", () =>
    Effect.gen(function*() {
      const { ReaderPool: _, ...writing } = pools
      for (const pool of Object.values(writing)) {
        const { config } = yield* Effect.provide(PgClient.PgClient, pool.pipe(Layer.provide(nowhere)))
        const { connectionTTL } = config as PgClient.PgPoolConfig
        assert.isAtMost(Duration.toSeconds(connectionTTL!), 30)
      }
    }))
})
