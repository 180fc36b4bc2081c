/**
 * Workers claim nothing from a database that may forget acknowledged commits, or from a copy of it. The tests switch
 * settings of a real PostgreSQL and copy databases.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { accept, fieldsOf, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimIds, issueAtNewProvider, pass, readTerms, takeIds } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { newLedger, whileRunning } from "../../fixtures/postgres/OwnServer.ts"
import { anotherPool } from "../../fixtures/postgres/Pools.ts"

/** The queue on a new connection. */
const onNewConnection = <A, E, R>(effect: Effect.Effect<A, E, R>, startupParameters: Record<string, string> = {}) =>
  Effect.provide(
    effect,
    Layer.fresh(SubmissionQueue.layer).pipe(Layer.provide(anotherPool({ maxConnections: 1, startupParameters })))
  )

/** Asserts that no worker starts on the database, and that a claim is refused. */
const assertRefused = Effect.fnUntraced(function*(
  provider: Parameters<typeof claimIds>[0],
  setting: "fsync" | "synchronous_commit"
) {
  const error = yield* Effect.flip(Effect.flatMap(Queue, ({ prepare }) => prepare))
  assert.deepStrictEqual(fieldsOf(error), { _tag: "UnsafeDatabase", setting })
  assert.include(error.message, `${setting} off`)
  assert.deepStrictEqual(yield* claimIds(provider), [])
})

describe("A database that may forget acknowledged commits", () => {
  for (
    const [who, change] of [
      ["the session", null],
      ["the database", (database: string) => `ALTER DATABASE ${database} SET synchronous_commit = off`],
      [
        "the role in this database",
        (database: string) => `ALTER ROLE CURRENT_USER IN DATABASE ${database} SET synchronous_commit = off`
      ]
    ] as const
  ) {
    it.live(`is refused, also for claims, because ${who} sets synchronous_commit = off`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { grant, identity } = yield* issueAtNewProvider()
        const { operation } = yield* accept(identity)
        const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
        if (change !== null) yield* sql.unsafe(change(row!.name)).unprepared
        yield* onNewConnection(
          assertRefused(grant.provider, "synchronous_commit"),
          change === null ? { synchronous_commit: "off" } : {}
        )
        assert.strictEqual((yield* OperationLedger.use(({ show }) => show(operation.id))).state, "accepted")
        // A session that sets the value itself may work.
        for (const synchronous_commit of ["on", "local", "remote_apply"]) {
          const prepare = Effect.flatMap(Queue, ({ prepare }) => prepare)
          assert.deepStrictEqual(yield* onNewConnection(prepare, { synchronous_commit }), { moved: false })
        }
        assert.deepStrictEqual(yield* onNewConnection(claimIds(grant.provider), { synchronous_commit: "on" }), [
          operation.id
        ])
      }).pipe(Effect.provide(PostgresLedger)))
  }

  it.live("is refused because fsync is off, from the moment on that it was switched off", () =>
    Effect.gen(function*() {
      const cluster = yield* newLedger
      const { grant: { provider }, identity } = yield* whileRunning(cluster, issueAtNewProvider())
      yield* whileRunning(
        cluster,
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const queue = yield* Queue
          const ids = yield* acceptSeveral(identity, 2)
          assert.deepStrictEqual(yield* queue.prepare, { moved: false })
          assert.deepStrictEqual(yield* claimIds(provider, 1), [ids[0]!])
          yield* sql`ALTER SYSTEM SET fsync = off`
          yield* sql`SELECT pg_reload_conf()`
          while (true) {
            const [row] = yield* sql`SHOW fsync`
            if (row!["fsync"] === "off") break
          }
          yield* assertRefused(provider, "fsync")
        })
      )
      yield* whileRunning(cluster, assertRefused(provider, "fsync"))
      assert.lengthOf(yield* whileRunning(cluster, claimIds(provider), { fsync: "on" }), 1)
    }).pipe(Effect.scoped))
})

describe("A ledger that was copied to another cluster", () => {
  it.live("holds every accepted operation, until a status read or an operator releases it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const ledger = yield* OperationLedger
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const ids = yield* acceptSeveral(identity, 3)
      assert.deepStrictEqual(yield* queue.prepare, { moved: false })
      // As after the restore of a dump or of a snapshot.
      yield* sql`UPDATE ledger_home SET system_identifier = 0`
      assert.deepStrictEqual(yield* claimIds(provider), [], "the ledger is not prepared for this cluster")
      const prepared = yield* Effect.all(Array.from({ length: 8 }, () => queue.prepare), { concurrency: "unbounded" })
      assert.lengthOf(prepared.filter(({ moved }) => moved), 1, "once, also with several concurrent callers")
      assert.deepStrictEqual(yield* queue.prepare, { moved: false })
      assert.deepStrictEqual(yield* claimIds(provider), [])
      const { operation: later } = yield* accept(identity)
      assert.deepStrictEqual(yield* claimIds(provider), [later.id])
      assert.sameMembers([...yield* takeIds("takeHeld", provider)], ids)
      assert.isTrue((yield* ledger.show(ids[0]!)).under_review)
      assert.strictEqual(
        (yield* Effect.flip(queue.release(ids[0]!)))._tag,
        "StillHeld",
        "another cluster could still send it"
      )
      yield* pass(readTerms.rescue_after)
      yield* queue.release(ids[0]!)
      assert.deepStrictEqual(yield* claimIds(provider), [ids[0]!])
      assert.strictEqual(yield* queue.releaseAll, 2)
      assert.sameMembers([...yield* claimIds(provider)], ids.slice(1))
    }).pipe(Effect.provide(PostgresLedger)))

  it.live("does the same in another database of the same cluster, such as a copy made with CREATE DATABASE", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* sql`UPDATE ledger_home SET database = (SELECT oid FROM pg_database WHERE datname = 'template1')`
      assert.deepStrictEqual(yield* claimIds(provider), [])
      assert.deepStrictEqual(yield* queue.prepare, { moved: true })
      assert.deepStrictEqual(yield* takeIds("takeHeld", provider), [operation.id])
    }).pipe(Effect.provide(PostgresLedger)))
})
