/**
 * The counts of moves, from which figures about the ledger are made: how they age, and how a ledger that has operations gets
 * them.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import * as fs from "node:fs"
import type { OperationState } from "../../../../src/domain/Operation.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import { fillQueue } from "../../../fixtures/ledger/FilledQueue.ts"
import { operationIn, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { assertExact, fold } from "../../../fixtures/ledger/PlainFigures.ts"
import { acceptSeveral, issueAtNewProvider } from "../../../fixtures/ledger/Queue.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const Figures = LedgerFigures.layer.pipe(Layer.provideMerge(PostgresLedger))

interface Move {
  readonly provider: string
  readonly minutesAgo: number
  readonly from: OperationState | null
  readonly to: OperationState
}

const state = fc.constantFrom<OperationState>(...specifiedStates)
const move: fc.Arbitrary<Move> = fc.record({
  provider: fc.constantFrom("first", "second"),
  // Of the last minutes, of the hours at the ends of the spans, and of ten days.
  minutesAgo: fc.oneof(
    fc.nat(10),
    fc.integer({ min: 170, max: 310 }),
    fc.integer({ min: 10_000, max: 10_150 }),
    fc.nat(14_400)
  ),
  from: fc.option(state),
  to: state
})

const minute = 60_000

/** What `flow` must return, made from every move alone. */
const expectedFlow = (moves: ReadonlyArray<Move>, now: number, hours: number) => {
  const unit = hours <= 3 ? minute : 60 * minute
  const begin = (at: number) => Math.floor(at / unit) * unit
  const start = begin(now - hours * 60 * minute)
  // The moves have the minutes of the database.
  const timed = moves.map((move) => ({
    ...move,
    at: Math.floor((now - move.minutesAgo * minute) / minute) * minute
  })).filter(({ from, to }) => from !== to)
  const lines: Array<string> = []
  for (const provider of ["first", "second"]) {
    const own = timed.filter((move) => move.provider === provider)
    const intervals = [...new Set(own.map(({ at }) => Math.max(start, begin(at))))].toSorted((a, b) => a - b)
    for (const at of intervals) {
      const entered = new Map<string, number>()
      const standing = new Map<string, number>()
      const add = (counts: Map<string, number>, of: string | null, by: number) =>
        of !== null && counts.set(of, (counts.get(of) ?? 0) + by)
      for (const { at: moved, from, to } of own) {
        if (begin(moved) === at && moved >= start) add(entered, to, 1)
        if (moved >= at + unit) continue
        add(standing, to, 1)
        add(standing, from, -1)
      }
      lines.push(line(at, provider, Object.fromEntries(entered), Object.fromEntries(standing)))
    }
  }
  return lines.toSorted()
}

const line = (at: number, provider: string, entered: object, standing: object) => {
  const text = (counts: object) =>
    Object.entries(counts).filter(([, count]) => count !== 0).toSorted().map((entry) => entry.join("=")).join(",")
  return `${new Date(at).toISOString()} ${provider} entered ${text(entered)} standing ${text(standing)}`
}

/** Writes the moves, and compares the flow before and after a fold. The transaction has one time, and is rolled back. */
const compareFlow = (moves: ReadonlyArray<Move>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { flow } = yield* LedgerFigures
    yield* sql`DELETE FROM operation_counts`
    const rows = moves.map(({ from, minutesAgo, provider, to }) => ({ from, minutesAgo, provider, to }))
    yield* sql`
      INSERT INTO operation_counts
        (at, count, from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state)
      SELECT date_trunc('minute', now() - m."minutesAgo" * interval '1 minute'), 1, 0, 0, false, false, m.provider, m."from", m."to"
      FROM json_to_recordset(${
      JSON.stringify(rows)
    }::json) AS m ("minutesAgo" int, provider text, "from" text, "to" text)`
    const [row] = yield* sql<{ readonly now: number }>`SELECT (extract(epoch FROM now()) * 1000)::float8 AS now`
    for (const step of ["before", "after"]) {
      for (const hours of [1, 3, 4, 168]) {
        const points = yield* flow(hours)
        const lines = points.map(({ at, entered, provider, standing }) =>
          line(at.epochMilliseconds, provider, entered, standing)
        )
        assert.deepStrictEqual(
          lines.toSorted(),
          expectedFlow(moves, row!.now, hours),
          `${hours} hours, ${step} the fold`
        )
        const times = points.map(({ at }) => at.epochMilliseconds)
        assert.deepStrictEqual(times, times.toSorted((a, b) => a - b), "oldest first")
      }
      yield* fold
    }
    return yield* Effect.fail("done" as const)
  })

layer(Figures, { excludeTestServices: true })("counts of moves", (it) => {
  it.effect(
    "give the flow of each interval, the same before and after a fold of any age",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* forAll(fc.array(move, { maxLength: 60 }), rounds(12, 50), (moves) =>
          Effect.map(Effect.flip(sql.withTransaction(compareFlow(moves))), (end) =>
            assert.strictEqual(end, "done")))
      })
  )

  it.effect("become rows of hours after three hours, and one row after seven days", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM operation_counts`
      yield* sql`
        INSERT INTO operation_counts (at, count, to_timeline, to_review, provider, to_state)
        SELECT at, 1, 0, false, 'bank', 'failed' FROM generate_series(
          date_trunc('hour', now() - interval '8 days', 'UTC'), date_trunc('minute', now()), interval '1 minute'
        ) at`
      yield* fold
      const rows = yield* sql<{ readonly at: string; readonly rows: number }>`
        SELECT CASE
            WHEN at = '-infinity' THEN 'before'
            WHEN at < date_trunc('hour', now() - interval '3 hours', 'UTC') THEN 'hours'
            ELSE 'minutes'
          END AS at, count(*)::int AS rows
        FROM operation_counts GROUP BY 1 ORDER BY 1`
      const [before, hours, minutes] = rows
      assert.deepStrictEqual([before, hours], [{ at: "before", rows: 1 }, { at: "hours", rows: 7 * 24 - 3 }])
      assert.isTrue(minutes!.rows >= 180 && minutes!.rows <= 241, JSON.stringify(minutes))
      yield* sql`SELECT recount_operations()`
    }))

  it.effect("begin with the operations of a ledger that was migrated with them", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant, identity } = yield* issueAtNewProvider()
      for (const state of specifiedStates) yield* operationIn(identity, state)
      yield* acceptSeveral(identity, 3)
      yield* fillQueue(grant, { count: 5, behind: 1 })
      yield* fillQueue(grant, { count: 5, behind: 1, state: "submitting", returned: true, due_in: 3600 })
      yield* sql`DROP TABLE operation_counts, operation_count_folds, worker_reports`.unprepared
      yield* sql`DROP FUNCTION operations_counted, fold_operation_counts, recount_operations, operations_wait_ends CASCADE`
        .unprepared
      yield* sql`DROP INDEX operations_unsettled, operations_under_review, operations_unread`.unprepared
      // Later migrations stay.
      for (const name of ["0011_operation_counts", "0017_clock_skew", "0022_pauses"]) {
        const file = fs.readFileSync(`migrations/${name}.sql`, "utf8")
        yield* sql.unsafe(`DO $migration$ BEGIN EXECUTE $file$${file}$file$; END $migration$`).unprepared
      }
      yield* assertExact("the migration")
      yield* acceptSeveral(identity, 1)
      yield* assertExact("the first acceptance after the migration")
    }))

  it.effect("have one row for each kind of move of a statement, and are exact for statements of any size", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider()
      const accepted = yield* acceptSeveral(identity, 30)
      // The first statement has one row: PostgreSQL keeps its plan.
      for (const count of [1, 7, 22]) {
        yield* sql`DELETE FROM operation_counts`
        const ids = accepted.splice(0, count)
        yield* sql`
          UPDATE operations SET revision = revision + 1,
            state = CASE WHEN id = ANY (${ids.slice(0, 2)}::uuid[]) THEN 'cancelled' ELSE 'submitting' END
          WHERE id = ANY (${ids}::uuid[])`
        const rows = yield* sql<{ readonly to_state: string; readonly count: number }>`
          SELECT to_state, count::int FROM operation_counts WHERE from_state = 'accepted' ORDER BY to_state`
        const moved = [{ to_state: "cancelled", count: Math.min(2, count) }, {
          to_state: "submitting",
          count: count - 2
        }]
        assert.deepStrictEqual(rows, moved.filter((row) => row.count > 0))
      }
      yield* sql`DELETE FROM operation_counts`
      yield* sql`UPDATE operations SET due_at = now() WHERE state = 'submitting'`
      assert.deepStrictEqual(yield* sql`SELECT FROM operation_counts`, [], "no operation moved")
      yield* sql`SELECT recount_operations()`
    }))
})
