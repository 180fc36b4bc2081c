/**
 * The table of payloads grows and shrinks with the queue, and PostgreSQL keeps plans for longer. No statement of the queue reads all
 * payloads, with plans from the time when the table was empty. The tests read the statistics of the table in one transaction.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { PostgresLedger } from "../../fixtures/Ledger.ts"
import { openTransaction } from "../../fixtures/Pools.ts"
import { acceptSeveral, claimTerms, issueAtNewProvider } from "../../fixtures/Queue.ts"

const scans = "SELECT seq_scan::int AS scans FROM pg_stat_xact_user_tables WHERE relname = 'operation_payloads'"

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
      const before = yield* run(scans)
      for (const count of [1, 1, 8]) yield* run(settle, [count])
      assert.deepStrictEqual(yield* run(scans), before)
      const [left] = (yield* run("SELECT count(*)::int AS count FROM operation_payloads")) as ReadonlyArray<object>
      assert.deepStrictEqual(left, { count: 10 }, "each statement erased its payloads, and no other")
    }).pipe(Effect.scoped))

  it.effect("is not read as a whole by a claim, nor by a take-over of returned claims", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* SubmissionQueue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* emptyTable
      yield* acceptSeveral(identity, 20)
      const claimed = Effect.gen(function*() {
        // The statistics of a session may have earlier transactions.
        const before = yield* sql.unsafe(scans)
        const claims = yield* queue.claim(provider, 5, claimTerms)
        for (const claim of claims) {
          yield* queue.returnClaim(claim, { reason: "no key", delay: Duration.zero, review_after: Duration.hours(1) })
        }
        yield* sql`UPDATE operations SET due_at = now() - interval '1 second' WHERE return_reason IS NOT NULL`
        const taken = yield* queue.claimReturned(provider, 3, claimTerms)
        assert.deepStrictEqual([claims.length, taken.length], [5, 3])
        for (const { payload } of [...claims, ...taken]) assert.deepStrictEqual(yield* payload, { amount: "10.00" })
        assert.deepStrictEqual(yield* sql.unsafe(scans), before)
      })
      yield* sql.withTransaction(claimed)
    }))
})
