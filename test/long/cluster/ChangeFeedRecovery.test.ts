/**
 * Change tokens survive a crash of the server, and a failover that lost nothing of them. The tests kill a real PostgreSQL, and
 * promote a real standby.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as path from "node:path"
import type { ChangeToken } from "../../../src/domain/ChangeFeed.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { feedReader, revisions, submittingStatement } from "../../fixtures/ledger/Changes.ts"
import { accept, issue, outcome } from "../../fixtures/ledger/Ledger.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { newLedger, standbyOf, whileRunning } from "../../fixtures/postgres/OwnServer.ts"
import { openTransaction } from "../../fixtures/postgres/Pools.ts"

/** The id of a new transaction. */
const newId = Effect.map(
  SqlClient.SqlClient.use((sql) => sql<{ readonly id: number }>`SELECT pg_current_xact_id()::text::float8 AS id`),
  ([row]) => row!.id
)

/**
 * PostgreSQL logs no snapshots for standbys, which would contain the newest ids at a time of its own, and writes what no commit waits for
 * after ten seconds.
 */
const withoutSnapshots = { wal_level: "minimal", max_wal_senders: "0", wal_writer_delay: "10s" }

const move = (id: OperationId, state: "submitting" | "cancelled") =>
  OperationLedger.use((ledger) => ledger.transition(id, 1, outcome(state), null))

describe("The change feed", () => {
  it.live("continues after a crash of the server, which gives ids of lost transactions again", () =>
    Effect.gen(function*() {
      const cluster = yield* newLedger
      const { identity } = yield* whileRunning(cluster, issue())
      const readers = [feedReader(identity), feedReader(null)]
      const accepted = yield* whileRunning(cluster, Effect.forEach([1, 2, 3, 4], () => accept(identity)))
      const [lost, seen, unread, later] = accepted.map(({ operation }) => operation.id)
      let idBefore = 0
      // The connections fail with the server.
      yield* Effect.exit(whileRunning(
        cluster,
        Effect.scoped(Effect.gen(function*() {
          for (const reader of readers) yield* reader.drain()
          const run = yield* openTransaction
          yield* run(submittingStatement, [lost])
          yield* move(seen!, "submitting")
          for (const reader of readers) assert.deepStrictEqual(revisions(yield* reader.drain()), [`${seen} 2`])
          yield* move(unread!, "submitting")
          // The log has no trace of these ids.
          yield* Effect.forEach(Array.from({ length: 20 }), () => newId)
          idBefore = yield* newId
          process.kill(
            Number(fs.readFileSync(path.join(cluster.pgdata, "postmaster.pid"), "utf8").split("\n")[0]),
            "SIGKILL"
          )
        })),
        withoutSnapshots
      ))
      assert.isAbove(idBefore, 0)
      // The children of a killed server may hold the data briefly.
      while (Exit.isFailure(yield* Effect.exit(whileRunning(cluster, Effect.void))));

      yield* whileRunning(
        cluster,
        Effect.gen(function*() {
          assert.isBelow(yield* newId, idBefore, "ids are given again")
          yield* move(later!, "submitting")
          yield* move(lost!, "cancelled")
          const expected = [`${unread} 2`, `${later} 2`, `${lost} 2`]
          for (const reader of readers) {
            assert.deepStrictEqual(revisions(yield* reader.drain()), expected)
            assert.deepStrictEqual((yield* reader.position).pending, [])
          }
        })
      )
    }).pipe(Effect.scoped))

  it.live("continues after a promotion with the tokens that a mark covers, ends the others, and serves none before", () =>
    Effect.gen(function*() {
      const primary = yield* newLedger
      const { identity } = yield* whileRunning(primary, issue())
      const tokens = Effect.gen(function*() {
        const readers = [feedReader(identity), feedReader(null)]
        for (const reader of readers) yield* reader.drain()
        return readers.map((reader) => reader.token()!)
      })
      const mark = Effect.flatMap(Queue, ({ markChanges }) => markChanges)
      const newOperation = Effect.map(accept(identity), ({ operation }) => operation)
      const first = yield* whileRunning(primary, newOperation)
      const marked = yield* whileRunning(primary, Effect.andThen(mark, tokens))
      const second = yield* whileRunning(primary, newOperation)
      // The standby has the second operation, but no mark says so.
      const unmarked = yield* whileRunning(primary, tokens)
      const standby = yield* standbyOf(primary)
      // The standby lacks this change.
      yield* whileRunning(primary, move(first.id, "submitting"))
      const lost = yield* whileRunning(primary, tokens)

      yield* whileRunning(
        standby,
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const feed = yield* OperationFeed
          const readsAfter = ([ofGrant, ofLedger]: ReadonlyArray<ChangeToken>) => [
            Effect.map(
              feed.since(identity, { states: [], type: null, page_size: 10, after: ofGrant! }),
              ({ operations }) => operations
            ),
            Effect.map(
              feed.sinceInLedger(ofLedger!, 10),
              ({ changes }) => changes.map(({ operation }) => operation)
            )
          ]
          const all = [marked, unmarked, lost].flatMap(readsAfter)
          for (const read of all) assert.strictEqual((yield* Effect.flip(read))._tag, "StoreUnavailable")
          assert.strictEqual((yield* Effect.flip(feed.now))._tag, "StoreUnavailable")
          yield* sql`SELECT pg_promote()`
          // No worker has run on the new timeline.
          for (const read of all) assert.strictEqual((yield* Effect.flip(read))._tag, "StoreUnavailable")
          yield* mark
          for (const read of readsAfter(marked)) assert.deepStrictEqual(revisions(yield* read), [`${second.id} 1`])
          for (const read of [unmarked, lost].flatMap(readsAfter)) {
            assert.strictEqual((yield* Effect.flip(read))._tag, "ChangeTokenExpired")
          }
          for (const reader of [feedReader(identity), feedReader(null)]) {
            assert.deepStrictEqual(revisions(yield* reader.drain()), [`${first.id} 1`, `${second.id} 1`])
          }
        })
      )
    }).pipe(Effect.scoped))
})
