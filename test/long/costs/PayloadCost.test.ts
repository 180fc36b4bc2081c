/**
 * The table of payloads grows and shrinks with the queue, and PostgreSQL keeps plans for longer. No statement of the queue reads all
 * payloads, neither the table nor its index, with plans from the time when the table was empty. The tests read the statistics of
 * the table in one transaction.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimTerms, issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { openTransaction } from "../../fixtures/postgres/Pools.ts"

const reads = `
  SELECT seq_scan::int AS scans, idx_tup_fetch::int AS rows FROM pg_stat_xact_user_tables
  WHERE relname = 'operation_payloads'`

interface Reads {
  readonly scans: number
  readonly rows: number
}

/** No scan of the table, and no scan of its whole index: at most two reads of each payload that the statements need. */
const assertFew = (before: unknown, after: unknown, needed: number) => {
  const [[first], [last]] = [before as [Reads], after as [Reads]]
  assert.strictEqual(last.scans, first.scans, "scans of the table")
  assert.isAtMost(last.rows - first.rows, 2 * needed, "rows that index scans read")
}

const settle = `
  UPDATE operations SET state = 'cancelled', revision = revision + 1
  WHERE id IN (SELECT id FROM operations WHERE state = 'accepted' LIMIT $1)`

/** The planner believes that the table is empty. */
const emptyTable = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe("UPDATE operations SET state = 'cancelled', revision = 2 WHERE state = 'accepted'")
  yield* sql.unsafe("VACUUM (ANALYZE) operation_payloads").unprepared
})

layer(PostgresLedger, { excludeTestServices: true })("the table of payloads", (it) => {
  it.effect("is not read as a whole by a statement that settles one operation or several", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      yield* emptyTable
      yield* acceptSeveral(identity, 20)
      const run = yield* openTransaction
      const before = yield* run(reads)
      for (const count of [1, 1, 8]) yield* run(settle, [count])
      assertFew(before, yield* run(reads), 10)
      const [left] = (yield* run("SELECT count(*)::int AS count FROM operation_payloads")) as ReadonlyArray<object>
      assert.deepStrictEqual(left, { count: 10 }, "each statement erased its payloads, and no other")
    }).pipe(Effect.scoped))

  it.effect("is not read as a whole by a claim, nor by a take-over of returned claims", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* emptyTable
      yield* acceptSeveral(identity, 20)
      const claimed = Effect.gen(function*() {
        // The statistics of a session may have earlier transactions.
        const before = yield* sql.unsafe(reads)
        const claims = yield* queue.claim(provider, 5, claimTerms)
        for (const claim of claims) {
          yield* queue.returnClaim(claim, { reason: "no key", delay: Duration.zero, review_after: Duration.hours(1) })
        }
        yield* sql`UPDATE operations SET due_at = now() - interval '1 second' WHERE return_reason IS NOT NULL`
        const taken = yield* queue.claimReturned(provider, 3, claimTerms)
        assert.deepStrictEqual([claims.length, taken.length], [5, 3])
        for (const { payload } of [...claims, ...taken]) assert.deepStrictEqual(yield* payload, { amount: "10.00" })
        assertFew(before, yield* sql.unsafe(reads), 8)
      })
      yield* sql.withTransaction(claimed)
    }))
})
