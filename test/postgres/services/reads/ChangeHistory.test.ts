/**
 * A change token belongs to one history of the ledger. After a restore, a move or a hold of all operations it has expired, and
 * new changes stand behind the restored ones.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ChangeToken } from "../../../../src/domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import { feedReader, revisions, submittingStatement } from "../../../fixtures/ledger/Changes.ts"
import {
  accept,
  conformance,
  issue,
  operationIn,
  PostgresLedger,
  PostgresServices
} from "../../../fixtures/ledger/Ledger.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherPool, anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { asAdmin, createDatabase, layerFor, Platform } from "../../../fixtures/postgres/TestDatabase.ts"

/** The tokens of both feeds, after all changes so far. */
const tokensOf = Effect.fnUntraced(function*(identity: GrantIdentity) {
  const readers = [feedReader(identity), feedReader(null)]
  for (const reader of readers) yield* reader.drain()
  return { identity, grant: readers[0]!.token()!, ledger: readers[1]!.token()! }
})
type Tokens = Effect.Success<ReturnType<typeof tokensOf>>

/** The name of the error of both feeds, or null. */
const errorOf = Effect.fnUntraced(function*({ grant, identity, ledger }: Tokens) {
  const read = (identity: GrantIdentity | null, token: ChangeToken) => {
    const reader = feedReader(identity)
    reader.resume(token)
    return Effect.match(reader.page(10), { onSuccess: () => null, onFailure: ({ _tag }) => _tag })
  }
  const errors = [yield* read(identity, grant), yield* read(null, ledger)]
  assert.strictEqual(errors[0], errors[1])
  return errors[0]!
})

const prepare = Effect.flatMap(Queue, (queue) => queue.prepare)

/** As in another cluster, or as the restore of its dump. */
const move = SqlClient.SqlClient.use((sql) => sql`UPDATE ledger_home SET system_identifier = system_identifier - 1`)

conformance("The tokens of the change feed", (it) => {
  it.effect("expire when an operator holds all operations", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      const tokens = yield* tokensOf(identity)
      assert.isNull(yield* errorOf(tokens))
      yield* Effect.flatMap(Queue, (queue) => queue.holdAll)
      assert.strictEqual(yield* errorOf(tokens), "ChangeTokenExpired")
      assert.include(revisions(yield* feedReader(null).drain()), `${operation.id} 1`)
      assert.isNull(yield* errorOf(yield* tokensOf(identity)))
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("The change feed of a server that was put back", (it) => {
  it.effect("ends tokens that are ahead of its transactions", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      yield* accept(identity)
      const tokens = yield* tokensOf(identity)
      assert.isNull(yield* errorOf(tokens))
      // As in a snapshot of the disk: the server counts from an earlier transaction.
      yield* sql`ALTER TABLE ledger_home DISABLE TRIGGER ledger_home_moved`
      yield* sql`UPDATE ledger_home SET change_offset = change_offset - 1000000`
      assert.strictEqual(yield* errorOf(tokens), "ChangeTokenExpired")
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("The change feed of a moved ledger", (it) => {
  it.effect("is unavailable until a worker has recorded the move, and then ends all tokens", () =>
    Effect.gen(function*() {
      const feed = yield* OperationFeed
      const { identity } = yield* issue()
      yield* accept(identity)
      const tokens = yield* tokensOf(identity)
      yield* move
      assert.strictEqual(yield* errorOf(tokens), "StoreUnavailable")
      assert.strictEqual((yield* Effect.flip(feed.now))._tag, "StoreUnavailable")
      assert.strictEqual((yield* Effect.flip(feedReader(null).drain()))._tag, "StoreUnavailable")
      assert.deepStrictEqual(yield* prepare, { moved: true })
      assert.strictEqual(yield* errorOf(tokens), "ChangeTokenExpired")
      const later = yield* tokensOf(identity)
      assert.deepStrictEqual(yield* prepare, { moved: false })
      assert.isNull(yield* errorOf(later))
    }))

  it.effect("has new changes behind restored ones, although the transactions of the cluster have lower ids", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const restored = [yield* operationIn(identity, "accepted"), yield* operationIn(identity, "submitted")]
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_transition`
        yield* sql`UPDATE operations SET change_position = change_position + 1000000000000`
        yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition`
      }))
      // It has its id before the move, and changes the ledger after it.
      const running = yield* openTransaction
      yield* running("SELECT pg_current_xact_id()::text")
      // A later transaction that has finished: the running one is not the newest.
      yield* sql`SELECT pg_current_xact_id()::text`
      const [last] = yield* sql<{ readonly position: number }>`
        SELECT max(change_position)::float8 AS position FROM operations`
      yield* move
      yield* prepare
      const readers = [feedReader(identity), feedReader(null)]
      for (const reader of readers) {
        assert.includeMembers([...revisions(yield* reader.drain(1))], [...revisions(restored)])
      }
      yield* running(submittingStatement, [restored[0]!.id])
      const { operation: later } = yield* accept(identity)
      for (const reader of readers) assert.deepStrictEqual(revisions(yield* reader.drain(1)), [`${later.id} 1`])
      yield* running("COMMIT")
      for (const reader of readers) assert.deepStrictEqual(revisions(yield* reader.drain(1)), [`${restored[0]!.id} 2`])
      const [row] = yield* sql<{ readonly isBehind: boolean }>`
        SELECT min(change_position) > ${last!.position} AS "isBehind" FROM operations
        WHERE id = ANY (${[later.id, restored[0]!.id]}::uuid[])`
      assert.isTrue(row!.isBehind)
    }).pipe(Effect.scoped))

  it.effect("waits for changes that began before the move", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const { id } = yield* operationIn(identity, "accepted")
      const run = yield* openTransaction
      yield* run(submittingStatement, [id])
      const moving = yield* Effect.forkChild(Effect.provide(move, anotherPool({ maxConnections: 1 })))
      yield* untilWaiting(1)
      yield* run("COMMIT")
      yield* Fiber.join(moving)
      yield* prepare
      const [row] = yield* sql<{ readonly isBehind: boolean }>`
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + change_offset
          > (SELECT max(change_position) FROM operations) AS "isBehind" FROM ledger_home`
      assert.isTrue(row!.isBehind)
    }).pipe(Effect.scoped))

  it.effect("ends all tokens when its table was recreated, also in sessions that know the old one", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const session = yield* Layer.build(anotherProcess({ maxConnections: 1 }))
      const { identity } = yield* issue()
      yield* accept(identity)
      const tokens = yield* tokensOf(identity)
      for (let n = 0; n < 8; n++) assert.isNull(yield* Effect.provideContext(errorOf(tokens), session))
      // As pg_restore --clean does.
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`CREATE TABLE restored (LIKE operations INCLUDING ALL)`
        yield* sql`INSERT INTO restored SELECT * FROM operations`
        yield* sql`ALTER TABLE operations RENAME TO former`
        yield* sql`ALTER TABLE restored RENAME TO operations`
      }))
      assert.strictEqual(yield* Effect.provideContext(errorOf(tokens), session), "ChangeTokenExpired")
      assert.strictEqual(yield* errorOf(tokens), "ChangeTokenExpired")
      yield* sql`ALTER TABLE operations RENAME TO restored`
      yield* sql`ALTER TABLE former RENAME TO operations`
    }).pipe(Effect.scoped))
})

describe("The copy of a ledger in another database", () => {
  const servicesOn = (database: string) =>
    Layer.fresh(PostgresServices).pipe(
      Layer.provideMerge(Layer.fresh(layerFor(database, { maxConnections: 1 }))),
      Layer.provideMerge(Platform)
    )

  it.live("has no tokens of the original, and is unavailable until a worker has started there", () =>
    Effect.gen(function*() {
      const original = yield* createDatabase()
      const copy = `${original}_copy`
      const { identity, tokens } = yield* Effect.provide(
        Effect.gen(function*() {
          const { identity } = yield* issue()
          yield* operationIn(identity, "submitted")
          return { identity, tokens: yield* tokensOf(identity) }
        }),
        servicesOn(original)
      )
      const admin = (statement: string) => asAdmin(SqlClient.SqlClient.use((sql) => sql.unsafe(statement).unprepared))
      yield* Effect.acquireRelease(
        admin(`CREATE DATABASE ${copy} TEMPLATE ${original}`),
        () => Effect.orDie(admin(`DROP DATABASE ${copy} WITH (FORCE)`))
      )
      yield* Effect.provide(
        Effect.gen(function*() {
          assert.strictEqual(yield* errorOf(tokens), "StoreUnavailable")
          assert.deepStrictEqual(yield* prepare, { moved: true })
          assert.strictEqual(yield* errorOf(tokens), "ChangeTokenExpired")
          const own = yield* tokensOf(identity)
          assert.isNull(yield* errorOf(own))
        }),
        servicesOn(copy)
      )
      assert.isNull(yield* Effect.provide(errorOf(tokens), servicesOn(original)))
    }).pipe(Effect.scoped))
})
