/**
 * What the figures cost their readers, on ledgers of several sizes, with folded counts and with counts that no worker folded.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Grants } from "../../src/services/Grants.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { nowStatement } from "../../src/services/sql/figureStatements.ts"
import { servicesOn } from "../feed/ledgers.ts"
import { grantFor, withoutTriggers } from "../shared/database.ts"
import { say } from "../shared/progress.ts"
import { median } from "../shared/statistics.ts"

export interface ReadCost {
  readonly operations: number
  readonly unsettled: number
  /** Rows of `operation_counts`. */
  readonly counts: number
  /** Milliseconds, median. */
  readonly now: number
  /** Pages of 8 KiB that the statement looked at. */
  readonly buffers: number
  /** Milliseconds of a plain count of operations by provider and state, for comparison. */
  readonly plainCount: number
}

export interface Reads {
  readonly sizes: ReadonlyArray<ReadCost>
  /** The largest ledger, while no worker has folded this many moves. */
  readonly unfolded: ReadCost
  /** The same after the fold, whose dead rows a long transaction keeps. */
  readonly dead: ReadCost
  /** Milliseconds of that fold. */
  readonly fold: number
}

const unfoldedMoves = 100_000

/** Unsettled operations in all conditions, of many clients. `n` goes on where the last size ended. */
const insertOperations = `
  INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
    request_digest, state, revision, created_at, updated_at, completed_at, provider, due_at, timeline, waiting, hold_placed,
    under_review, change_position)
  SELECT uuidv7(), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id, 'payment', 'key-' || n,
    sha256(convert_to(n::text, 'UTF8')), s.state, 1, t.at, t.at, CASE WHEN s.state = 'succeeded' THEN t.at END, p.provider,
    CASE WHEN s.state <> 'succeeded' THEN now() + CASE n / 10 % 3 WHEN 0 THEN interval '1 hour' ELSE interval '-1 hour' END END,
    ledger_timeline(), s.state = 'accepted' AND n / 10 % 3 = 0, s.state = 'accepted' AND n / 10 % 7 = 0,
    s.state <> 'succeeded' AND n / 10 % 20 = 0, 1
  FROM generate_series($1::int, $2::int) AS n
  JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS at, count(*) OVER () AS grants FROM grants) g ON g.at = n / 10 % g.grants
  JOIN provider_connections p ON p.id = g.provider_connection_id
  CROSS JOIN LATERAL (
    SELECT CASE WHEN n % 10 > 0 THEN 'succeeded'
      ELSE (ARRAY['accepted', 'accepted', 'submitting', 'submitted', 'indeterminate'])[1 + n / 10 % 5] END AS state
  ) s
  CROSS JOIN LATERAL (SELECT now() - n * interval '1 second' AS at) t`

/** The rows that a busy week leaves after its folds: each kind of move in each minute of 4 hours, and in each hour before. */
const insertWeek = `
  INSERT INTO operation_counts (at, count, from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state)
  SELECT a.at, 1, m.n, m.n, false, false, provider, 'succeeded', 'succeeded'
  FROM (
    SELECT generate_series(date_trunc('minute', now()) - interval '4 hours', now(), '1 minute') AS at
    UNION ALL
    SELECT generate_series(date_trunc('hour', now()) - interval '7 days', now() - interval '4 hours', '1 hour')
  ) a, (SELECT DISTINCT provider FROM provider_connections) p, generate_series(1, 8) m (n)`

const insertMoves = `
  INSERT INTO operation_counts (at, count, from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state)
  SELECT date_trunc('minute', now()), 1, 0, 0, false, false, 'bank', 'succeeded', 'succeeded' FROM generate_series(1, $1::int)`

interface Explained {
  readonly "QUERY PLAN": readonly [{
    readonly "Execution Time": number
    readonly "Planning Time": number
    readonly Plan: { readonly "Shared Hit Blocks": number; readonly "Shared Read Blocks": number }
  }]
}

const count = (from: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql.unsafe<{ readonly count: number }>(`SELECT count(*)::int AS count FROM ${from}`),
      ([row]) => row!.count
    )
  )

const timed = (statement: string, times: number) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      Effect.forEach(Array.from({ length: times }), () =>
        Effect.gen(function*() {
          const startedAt = performance.now()
          yield* sql.unsafe(statement)
          return performance.now() - startedAt
        })),
      median
    )
  )

const measure = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // Planned as the service has it: the first executions of a prepared statement are planned each.
  const now = yield* timed(nowStatement, 30)
  const [row] = yield* sql.unsafe<Explained>(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${nowStatement}`).unprepared
  const { Plan: plan } = row!["QUERY PLAN"][0]
  return {
    operations: yield* count("operations"),
    unsettled: yield* count("operations WHERE completed_at IS NULL"),
    counts: yield* count("operation_counts"),
    now,
    buffers: plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
    plainCount: yield* timed("SELECT provider, state, count(*) FROM operations GROUP BY 1, 2", 5)
  } satisfies ReadCost
})

/** Seeds a database of its own, size by size. */
export const measureReads = (sizes: ReadonlyArray<number>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql.unsafe("CREATE DATABASE figures_read").unprepared
    return yield* Effect.provide(measureSizes(sizes), servicesOn("figures_read"))
  })

const measureSizes = Effect.fnUntraced(function*(sizes: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  const grants = yield* Grants
  yield* migrate
  for (let n = 0; n < 100; n++) {
    const names = { client_id: `client-${n}`, provider: `bank-${n % 3}` }
    yield* grants.issue({ ...grantFor(`owner-${n}`), ...names } as ReturnType<typeof grantFor>)
  }
  const costs: Array<ReadCost> = []
  let present = 0
  for (const size of sizes) {
    yield* say(`Seeding ${size.toLocaleString("en")} operations …`)
    yield* sql.withTransaction(withoutTriggers(sql.unsafe(insertOperations, [present + 1, size])))
    present = size
    yield* sql`SELECT recount_operations()`
    yield* sql.unsafe(insertWeek)
    yield* sql.unsafe("VACUUM (ANALYZE)").unprepared
    costs.push(yield* measure)
  }
  yield* say(`Reading beside ${unfoldedMoves.toLocaleString("en")} moves that no worker folded …`)
  yield* sql.unsafe(insertMoves, [unfoldedMoves])
  const unfolded = yield* measure
  const fold = yield* timed("SELECT fold_operation_counts('0')", 1)
  return { sizes: costs, unfolded, fold, dead: yield* measure } satisfies Reads
})
