/** Workers mark how far the changes have come, so that change tokens survive a failover. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { layerMaintenance } from "../../../../src/submission/SubmissionProcesses.ts"
import { submittingStatement } from "../../../fixtures/ledger/Changes.ts"
import { accept, issue, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

interface Mark {
  readonly high: number
  readonly pending: ReadonlyArray<number>
  /** The transaction that wrote the row last. */
  readonly writer: string
}

const mark = Effect.map(
  SqlClient.SqlClient.use((sql) =>
    sql<Mark>`
      SELECT high::float8 AS high, pending::float8[] AS pending, xmin::text AS writer FROM change_marks
      WHERE timeline = ledger_timeline()`
  ),
  ([row]) => row!
)

const lastPosition = Effect.map(
  SqlClient.SqlClient.use((sql) =>
    sql<{ readonly last: number }>`SELECT max(change_position)::float8 AS last FROM operations`
  ),
  ([row]) => row!.last
)

/** Marks as if the last mark were older than a second. */
const markNow = Effect.gen(function*() {
  yield* SqlClient.SqlClient.use((sql) => sql`UPDATE change_marks SET marked_at = 'epoch'`)
  const before = yield* mark
  yield* Effect.flatMap(Queue, ({ markChanges }) => markChanges)
  return { before, after: yield* mark }
})

layer(PostgresLedger, { excludeTestServices: true })("A mark of the changes", (it) => {
  it.effect("has the last committed change, and the earlier transactions that are unfinished", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      const run = yield* openTransaction
      yield* run(submittingStatement, [operation.id])
      const [row] = yield* run("SELECT pg_current_xact_id()::text::float8 + change_offset AS position FROM ledger_home")
      const { position } = row as { readonly position: number }
      yield* accept(identity)
      const { after } = yield* markNow
      assert.strictEqual(after.high, yield* lastPosition)
      assert.include(after.pending, position)
      yield* run("COMMIT")
      // The change of the longer transaction is behind the last place.
      assert.notInclude((yield* markNow).after.pending, position)
      assert.isBelow(position, after.high)
    }).pipe(Effect.scoped))

  it.effect("is written only after a change, and once a second at most", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      yield* accept(identity)
      yield* markNow
      // Transactions of other test files are pending, too, and may end between two marks.
      let again = yield* markNow
      while (again.before.pending.join() !== again.after.pending.join()) again = yield* markNow
      assert.deepStrictEqual(again.after, again.before, "the same row version")
      yield* sql`UPDATE change_marks SET marked_at = clock_timestamp() + interval '1 hour'`
      yield* accept(identity)
      const before = yield* mark
      yield* Effect.flatMap(Queue, ({ markChanges }) => markChanges)
      assert.deepStrictEqual(yield* mark, before)
      const { after } = yield* markNow
      assert.strictEqual(after.high, yield* lastPosition)
    }))

  it.effect("never goes back: a worker that waited for a further mark leaves it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const another = yield* Layer.build(anotherProcess({ maxConnections: 1 }))
      const { identity } = yield* issue()
      yield* accept(identity)
      yield* sql`UPDATE change_marks SET marked_at = 'epoch'`
      const run = yield* openTransaction
      yield* run("UPDATE change_marks SET high = high + 1000000")
      const marking = yield* Effect.forkChild(
        Effect.provideContext(Effect.flatMap(Queue, ({ markChanges }) => markChanges), another)
      )
      yield* untilWaiting(1)
      yield* run("COMMIT")
      yield* Fiber.join(marking)
      assert.isAbove((yield* mark).high, yield* lastPosition)
      yield* sql`UPDATE change_marks SET high = high - 1000000`
    }).pipe(Effect.scoped))

  it.effect("is made by the workers, again and again", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const isMarked = Effect.gen(function*() {
        return (yield* mark).high === (yield* lastPosition)
      })
      const untilMarked = Effect.repeat(Effect.delay(isMarked, "50 millis"), { until: (marked) => marked })
      yield* Effect.gen(function*() {
        yield* accept(identity)
        yield* untilMarked
        yield* accept(identity)
        yield* untilMarked
      }).pipe(Effect.provide(Layer.fresh(layerMaintenance)))
    }))
})
