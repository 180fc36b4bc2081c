/**
 * Figures about the ledger equal a plain count of all operations in the same snapshot, after any changes and any folds of the
 * counts. The tests compare them on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { settleAll } from "../../../fixtures/ledger/FilledQueue.ts"
import { accept, operationIn, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { assertExact, compare, fold } from "../../../fixtures/ledger/PlainFigures.ts"
import { acceptSeveral, claimTerms, issueAtNewProvider, readTerms, recording } from "../../../fixtures/ledger/Queue.ts"
import {
  answer,
  type Command,
  commands,
  newSide,
  newWorld,
  type Services
} from "../../../fixtures/ledger/QueueModel.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherPool, anotherProcess, inTime, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

const Figures = LedgerFigures.layer.pipe(Layer.provideMerge(PostgresLedger))

/** Runs the commands, and compares after some of them and after each fold. `folds` tells which commands a fold follows. */
const perform = (list: ReadonlyArray<Command>, folds: ReadonlyArray<boolean>) =>
  Effect.gen(function*() {
    const world = newWorld()
    const side = yield* newSide(world, yield* Effect.context<Services | SqlClient.SqlClient>())
    for (const [n, command] of list.entries()) {
      yield* answer(side, world, command)
      const stored = yield* Backstage.use((backstage) => backstage.inspect(side.ids))
      side.revisions.splice(0, Infinity, ...stored.map(({ revision }) => revision))
      const after = `${n}: ${JSON.stringify(command)}`
      // Counting plainly costs more than the commands. A wrong count stays wrong, so that one comparison of three shows it.
      if (n % 3 === 2) yield* assertExact(after)
      if (folds[n % folds.length]) {
        yield* fold
        yield* assertExact(`the fold after ${after}`)
      }
    }
  }).pipe(Effect.ensuring(Effect.orDie(settleAll)))

const countRows = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ readonly rows: number }>`SELECT count(*)::int AS rows FROM operation_counts`,
    ([row]) => row!.rows
  )
)

layer(Figures, { excludeTestServices: true })("figures about the ledger", (it) => {
  it.effect("equal a plain count after any sequence of calls, with folds at any time", () =>
    forAll(fc.tuple(commands, fc.array(fc.boolean(), { minLength: 5 })), rounds(5, 40), (drawn) => perform(...drawn)))

  it.effect(
    "equal a plain count in every snapshot, while several processes work and several sessions fold",
    () =>
      Effect.gen(function*() {
        const { grant, identity } = yield* issueAtNewProvider()
        const work = Effect.gen(function*() {
          const queue = yield* Queue
          yield* acceptSeveral(identity, 10)
          for (let n = 0; n < 10; n++) {
            const claims = yield* queue.claim(grant.provider, 3, claimTerms)
            for (const { operation: { id }, revision } of claims) {
              const state = (["succeeded", "submitted", "indeterminate"] as const)[n % 3]!
              // Another process may have ended the claim by its hold of everything.
              yield* Effect.catchTag(queue.record(id, revision, { state }, recording()), "StaleOperation", () =>
                Effect.void)
            }
            if (n === 4) {
              yield* queue.holdAll
            }
            yield* queue.takeHeld(grant.provider, 2, readTerms)
            yield* queue.takeReads(grant.provider, 2, readTerms)
          }
        }).pipe(Effect.provide(anotherProcess()))
        const folding = Effect.forever(fold).pipe(Effect.provide(anotherProcess()))
        const folders = yield* Effect.forEach([1, 2, 3], () =>
          Effect.forkScoped(folding))
        const workers = yield* Effect.forEach([1, 2, 3, 4], () =>
          Effect.forkScoped(work))
        while (workers.some((worker) => worker.pollUnsafe() === undefined)) yield* assertExact("a step of the others")
        yield* Fiber.joinAll(workers)
        for (const folder of folders) {
          assert.isUndefined(folder.pollUnsafe(), "no fold failed")
          yield* Fiber.interrupt(folder)
        }
        yield* assertExact("the end")
      }).pipe(Effect.scoped)
  )

  it.effect("hold every accepted operation once the timeline has changed, before any worker has seen it", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      yield* acceptSeveral(identity, 3)
      yield* operationIn(identity, "indeterminate")
      const sql = yield* SqlClient.SqlClient
      const figures = yield* LedgerFigures
      const ofProvider = Effect.map(figures.now, ({ held, oldest }) => [
        held.find(({ provider }) => provider === grant.provider)?.count,
        ...oldest.flatMap(({ condition, provider }) => provider === grant.provider ? [condition] : [])
      ])
      assert.deepStrictEqual(yield* ofProvider, [undefined, "accepted", "indeterminate"])
      const promoted = Effect.gen(function*() {
        yield* sql`
          CREATE OR REPLACE FUNCTION ledger_timeline() RETURNS integer LANGUAGE sql AS 'SELECT 2147483647'`.unprepared
        const seen = yield* ofProvider
        yield* compare("the promotion")
        return yield* Effect.fail(seen)
      })
      // The failure rolls the promotion back.
      const seen = yield* Effect.flip(sql.withTransaction(promoted))
      assert.deepStrictEqual(seen, [3, "held", "indeterminate"])
    }))

  it.effect("have one row for each kind of move after a fold, and no fold runs twice within its pause", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider()
      yield* sql`UPDATE operation_counts SET at = '-infinity'`
      yield* fold
      const before = yield* countRows
      yield* acceptSeveral(identity, 20)
      assert.strictEqual(yield* countRows, before + 20)
      yield* fold
      // The minute may have changed in between.
      assert.isAtMost(yield* countRows, before + 2)
      // Rows that cannot be merged stay where they are: a fold leaves no dead rows of its own.
      const places = sql`SELECT ctid::text AS place FROM operation_counts ORDER BY ctid`
      const folded = yield* places
      yield* fold
      assert.deepStrictEqual(yield* places, folded)
      const [again] = yield* sql`SELECT fold_operation_counts() AS folded`
      assert.deepStrictEqual(again, { folded: false })
      yield* sql`UPDATE operation_count_folds SET folded_at = now() + interval '1 hour'`
      const [afterClockStep] = yield* sql`SELECT fold_operation_counts() AS folded`
      assert.deepStrictEqual(afterClockStep, { folded: true })
    }))

  it.effect("let writers go on during a fold, and a fold go on during a long transaction of a writer", () =>
    Effect.scoped(Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      const folding = yield* openTransaction
      yield* folding("SELECT fold_operation_counts('0')")
      yield* inTime(accept(identity))
      // A second fold does not wait for the first.
      yield* inTime(fold)
      const writing = yield* openTransaction
      yield* writing("UPDATE operations SET under_review = true WHERE id = $1", [operation.id])
      yield* folding("COMMIT")
      yield* inTime(fold)
      yield* assertExact("the fold")
      yield* writing("COMMIT")
      yield* assertExact("the commit of the writer")
    })))

  it.effect("keep counts that only moves and the owner change: no place changes without a row", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const before = yield* countRows
      yield* sql`UPDATE operations SET due_at = due_at + interval '1 s', reads = reads + 1 WHERE id = ${id}`
      assert.strictEqual(yield* countRows, before, "the place is the same")
      yield* sql`UPDATE operations SET under_review = true WHERE id = ${id}`
      assert.strictEqual(yield* countRows, before + 1)
      yield* sql`INSERT INTO operation_counts (at, count, to_timeline, to_review, provider, to_state)
        VALUES (now(), 5, 0, false, 'a mistake', 'failed')`
      yield* sql`SELECT recount_operations()`
      yield* assertExact("the new count")
    }))

  it.effect("recount once a fold or a writer that is under way has finished", () =>
    Effect.scoped(Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* acceptSeveral(identity, 3)
      // So that the fold merges rows, also if the minute changed meanwhile.
      yield* SqlClient.SqlClient.use((sql) => sql`UPDATE operation_counts SET at = '-infinity'`)
      for (
        const statement of [
          "SELECT fold_operation_counts('0')",
          `UPDATE operations SET under_review = true WHERE id = '${operation.id}'`
        ]
      ) {
        const other = yield* openTransaction
        yield* other(statement)
        const recount = yield* Effect.forkChild(
          SqlClient.SqlClient.use((sql) => sql`SELECT recount_operations()`).pipe(Effect.provide(anotherPool()))
        )
        yield* untilWaiting(1)
        yield* other("COMMIT")
        yield* inTime(Fiber.join(recount))
        yield* assertExact(statement)
      }
    })))
})
