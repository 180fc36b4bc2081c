/**
 * A locked row delays only the requests for that row. The tests lock rows of PostgreSQL under the gateway's own pools,
 * and check their time-outs.
 */
import type { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import {
  ListPool,
  MigrationPool,
  ProbePool,
  ProofPool,
  ProvisioningPool,
  ReaderPool,
  WorkerPool,
  WriterPool
} from "../../../../src/node/postgres/Pools.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { ListClient } from "../../../../src/services/sql/reads/SqlOperationStore.ts"
import { SubmissionQueue } from "../../../../src/services/SubmissionQueue.ts"
import { accept, issue, newKey, operationIn, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { gatewayDatabase } from "../../../fixtures/postgres/GatewayDatabase.ts"
import { openTransaction } from "../../../fixtures/postgres/Pools.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

/** The gateway's own pools, on the database of this file. */
const Here = gatewayDatabase()

/** Each of its statements can be cancelled. */
const ListsAlone = Layer.effect(SqlClient.SqlClient, Effect.map(ListClient, (client) => client!)).pipe(
  Layer.provide(ListPool)
)

const pools = {
  ListPool: ListsAlone,
  ProvisioningPool,
  MigrationPool,
  ProbePool,
  ProofPool,
  ReaderPool,
  WorkerPool,
  WriterPool
}

const evidence = { by: "test" }
const recording = { evidence, reference: null, due_in: Duration.hours(1) }

layer(PostgresLedger, { excludeTestServices: true })("The pools of the gateway", (it) => {
  for (const [name, pool] of Object.entries(pools)) {
    it.effect(`${name} bounds how long a session waits for a lock, idles in a transaction and runs a statement`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{ readonly name: string; readonly setting: string }>`
          SELECT name, setting FROM pg_settings
          WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout')`
        const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, Number(setting)]))
        assert.isAbove(settings["lock_timeout"]!, 0)
        assert.isAbove(settings["idle_in_transaction_session_timeout"]!, 0)
        // A migration may rewrite a large table.
        if (pool !== MigrationPool) assert.isAbove(settings["statement_timeout"]!, settings["lock_timeout"]!)
        // Only the reader shares connections: it waits for no lock that another statement of the gateway holds.
        // The client of the other pools is the driver's, which shows its configuration.
        if (pool !== ReaderPool) assert.isNotTrue((sql as PgClient.PgClient).config.multiplex)
      }).pipe(Effect.provide(Layer.provide(pool, Here))))
  }
})

layer(PostgresLedger, { excludeTestServices: true })("While one grant stays locked", (it) => {
  it.effect("requests of other grants are accepted; its own are refused, and recorded once after the lock is released", () =>
    Effect.gen(function*() {
      const [locked, free] = [yield* issue(), yield* issue()]
      const request = { type: "payment", key: newKey(), payload: null }
      const Ledger = Layer.fresh(OperationLedger.layer).pipe(Layer.provide(WriterPool), Layer.provide(Here))
      yield* Effect.gen(function*() {
        const ledger = yield* OperationLedger
        yield* Effect.gen(function*() {
          const run = yield* openTransaction
          yield* run("SELECT 1 FROM grants WHERE id = $1 FOR UPDATE", [locked.grant.grant_id])
          const waiting = yield* Effect.forkChild(
            Effect.forEach(
              Array.from({ length: 100 }),
              () => Effect.result(ledger.accept(locked.identity, request)),
              { concurrency: "unbounded" }
            )
          )
          // More requests than connections, one by one: the locked grant must not keep a connection.
          for (let n = 0; n < 20; n++) assert.isTrue((yield* accept(free.identity)).created)
          for (const result of yield* Fiber.join(waiting)) {
            assert.strictEqual(result._tag === "Failure" && result.failure._tag, "StoreUnavailable")
          }
        }).pipe(Effect.scoped)
        assert.isTrue((yield* ledger.accept(locked.identity, request)).created)
        assert.isFalse((yield* ledger.accept(locked.identity, request)).created)
      }).pipe(Effect.provide(Layer.provideMerge(Ledger, Platform)))
    }))

  it.effect("a caller's transaction survives the refusal", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issue()
      const ledger = yield* OperationLedger
      const sql = yield* SqlClient.SqlClient
      const [refused, after] = yield* sql.withTransaction(Effect.gen(function*() {
        const refused = yield* Effect.scoped(Effect.gen(function*() {
          const run = yield* openTransaction
          yield* run("SELECT 1 FROM grants WHERE id = $1 FOR UPDATE", [grant.grant_id])
          return yield* Effect.flip(ledger.accept(identity, { type: "payment", key: newKey(), payload: null }))
        }))
        return [refused, yield* ledger.accept(identity, { type: "payment", key: newKey(), payload: null })] as const
      }))
      assert.strictEqual(refused._tag, "StoreUnavailable")
      assert.isTrue(after.created)
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("While one operation stays locked", (it) => {
  it.effect("workers record the outcomes of others", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const locked = yield* operationIn(identity, "submitting")
      const others = yield* Effect.forEach(Array.from({ length: 40 }), () => operationIn(identity, "submitting"))
      const Workers = Layer.fresh(SubmissionQueue.layer).pipe(Layer.provide(WorkerPool), Layer.provide(Here))
      yield* Effect.gen(function*() {
        const queue = yield* Queue
        const record = (operation: typeof locked) =>
          queue.record(operation.id, operation.revision, { state: "succeeded" }, recording)
        const run = yield* openTransaction
        yield* run("SELECT 1 FROM operations WHERE id = $1 FOR UPDATE", [locked.id])
        const waiting = yield* Effect.forkChild(Effect.flip(record(locked)))
        const recorded = yield* Effect.forEach(others, record, { concurrency: "unbounded" })
        for (const { state } of recorded) assert.strictEqual(state, "succeeded")
        assert.strictEqual((yield* Fiber.join(waiting))._tag, "StoreUnavailable")
      }).pipe(Effect.scoped, Effect.provide(Workers))
    }))
})
