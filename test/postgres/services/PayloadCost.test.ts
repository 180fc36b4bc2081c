/**
 * The table of payloads grows and shrinks with the queue, and PostgreSQL keeps plans for longer. No statement of the queue reads all
 * payloads, with plans from the time when the table was empty. The tests read the statistics of the table in one transaction.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { PostgresLedger } from "../../fixtures/Ledger.ts"
import { openTransaction } from "../../fixtures/Pools.ts"
import { acceptSeveral, issueAtNewProvider } from "../../fixtures/Queue.ts"

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
      for (const count of [1, 1, 8]) yield* run(settle, [count])
      assert.deepStrictEqual(yield* run(scans), [{ scans: 0 }])
      const [left] = (yield* run("SELECT count(*)::int AS count FROM operation_payloads")) as ReadonlyArray<object>
      assert.deepStrictEqual(left, { count: 10 }, "each statement erased its payloads, and no other")
    }).pipe(Effect.scoped))
})
