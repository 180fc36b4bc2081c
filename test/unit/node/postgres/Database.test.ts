/**
 * A process shares one connection pool per role, and pools that write renew their connections. The tests build the
 * pools without a server.
 */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Database } from "../../../../src/node/postgres/Database.ts"
import {
  FiguresPool,
  MigrationPool,
  ProbePool,
  ProofPool,
  ProvisioningPool,
  ReaderPool,
  WorkerPool,
  WriterPool
} from "../../../../src/node/postgres/Pools.ts"

const pools = { ReaderPool, ProofPool, ProvisioningPool, WriterPool, WorkerPool }

/** No server listens here. The pools connect only for their first statement. */
const nowhere = Database.layer({
  databaseUrl: Option.some(Redacted.make("postgres://nobody@127.0.0.1:1/nothing")),
  dataDir: ""
})

describe("The pools of a process", () => {
  it.effect("are shared by all users of the same pool, and separate from other pools", () =>
    Effect.gen(function*() {
      const clients: Array<SqlClient.SqlClient> = []
      const user = () => Layer.effectDiscard(Effect.map(SqlClient.SqlClient, (client) => clients.push(client)))
      const users = Object.values(pools).flatMap((pool) => [pool, pool].map((pool) => Layer.provide(user(), pool)))
      yield* Layer.build(Layer.mergeAll(Layer.empty, ...users).pipe(Layer.provide(nowhere)))
      assert.lengthOf(clients, 10)
      assert.strictEqual(new Set(clients).size, 5)
    }))

  it.effect("keep no writing connection for longer than half a minute, because it may be dead without notice", () =>
    Effect.gen(function*() {
      const { ReaderPool: _, ...writing } = pools
      for (const pool of Object.values(writing)) {
        const { config } = yield* Effect.provide(PgClient.PgClient, pool.pipe(Layer.provide(nowhere)))
        const { connectionTTL } = config as PgClient.PgPoolConfig
        assert.isAtMost(Duration.toSeconds(connectionTTL!), 30)
      }
    }))

  // Each row of a batch of acceptances takes 150 ms otherwise, on PostgreSQL 15.
  it.effect("let PostgreSQL compile no statement", () =>
    Effect.gen(function*() {
      for (const pool of Object.values({ ...pools, FiguresPool, MigrationPool, ProbePool })) {
        const { config } = yield* Effect.provide(PgClient.PgClient, pool.pipe(Layer.provide(nowhere)))
        assert.deepInclude((config as PgClient.PgPoolConfig).startupParameters, { jit: "off" })
      }
    }))
})
