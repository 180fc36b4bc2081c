/**
 * Costs while an old snapshot is open: a transaction at REPEATABLE READ stays open, and PostgreSQL cannot remove what died since.
 */
import { Effect } from "effect"
import { withProgress } from "../shared/progress.ts"
import { measureRound, type RoundCosts } from "./calls.ts"
import { connect, type GrowthLedger, openLedger, provider } from "./ledger.ts"
import { type LedgerCosts, summarize } from "./report.ts"

interface SnapshotPlan {
  readonly size: number
  readonly rounds: number
  readonly operations: number
  readonly seconds: number
  readonly rate: number
}

export interface SnapshotReport {
  readonly seconds: number
  readonly rate: number
  /** Operations that were accepted, claimed and settled while the snapshot was open, before the rounds. */
  readonly settled: number
  /** Before the transaction began, while it was open, after its end, and after a VACUUM. */
  readonly phases: ReadonlyArray<LedgerCosts>
}

const accept = `
  WITH accepted AS (
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
      request_digest, state, revision)
    SELECT uuidv7(), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id, 'payment', gen_random_uuid()::text,
      sha256(convert_to(n::text, 'UTF8')), 'accepted', 1
    FROM generate_series(1, $1::int) AS n
    CROSS JOIN LATERAL (SELECT floor(random() * array_length($2::uuid[], 1))::int + 1 AS place WHERE n > 0) r
    JOIN grants g ON g.id = ($2::uuid[])[r.place]
    RETURNING id, client_id
  ), payloads AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload)
    SELECT id, client_id, convert_to('{"amount":"18.50","currency":"EUR"}', 'UTF8') FROM accepted
  )
  SELECT id FROM accepted`

/** The times are those of a worker at that second: `$2` is its age. So the stale time of most claims has passed. */
const moves = [
  `state = 'submitting', revision = 2, send_before = now() + (30 - $2::float8) * interval '1 second',
    due_at = now() + (90 - $2::float8) * interval '1 second'`,
  "state = 'submitted', revision = 3, due_at = now() - $2::float8 * interval '1 second'",
  "state = 'succeeded', revision = 4, evidence = '{\"by\":\"bench\"}', due_at = now() - $2::float8 * interval '1 second'"
].map((set) => `UPDATE operations SET ${set} WHERE id = ANY ($1::uuid[])`)

/** Lets this many seconds of work pass. The triggers run, and each move is a transaction of its own. */
const work = ({ grants, sql }: GrowthLedger, { rate, seconds }: SnapshotPlan) =>
  withProgress(
    { label: `Work for ${provider}`, unit: "seconds", total: seconds },
    (progress) =>
      Effect.gen(function*() {
        const ids = grants.map(({ grant_id }) => grant_id)
        for (let second = 0; second < seconds; second++) {
          const rows = yield* sql.unsafe<{ readonly id: string }>(accept, [rate, ids])
          for (const move of moves) yield* sql.unsafe(move, [rows.map(({ id }) => id), seconds - second])
          progress.advance()
        }
      })
  )

const settledCount = "SELECT count(*)::float8 AS settled FROM operations WHERE completed_at IS NOT NULL"

export const measureSnapshot = Effect.fnUntraced(function*(plan: SnapshotPlan) {
  const at = yield* openLedger("ledger_snapshot", plan.size)
  const countSettled = Effect.map(
    at.sql.unsafe<{ readonly settled: number }>(settledCount),
    ([row]) => row!.settled
  )
  const measure = Effect.gen(function*() {
    const rounds: Array<RoundCosts> = []
    // The first round is a warm-up.
    for (let round = 0; round <= plan.rounds; round++) {
      const costs = yield* measureRound(at, plan.operations)
      if (round > 0) rounds.push(costs)
    }
    return rounds
  })
  const before = yield* measure
  const settledBefore = yield* countSettled
  const during = yield* Effect.gen(function*() {
    const old = yield* connect("ledger_snapshot")
    yield* old.unsafe("BEGIN ISOLATION LEVEL REPEATABLE READ")
    yield* old.unsafe("SELECT 1 FROM operations LIMIT 1")
    yield* work(at, plan)
    const settled = (yield* countSettled) - settledBefore
    // As autovacuum does every minute. Without statistics, plans made for a table that was empty would read all of its dead rows.
    yield* at.sql.unsafe("ANALYZE").unprepared
    const rounds = yield* measure
    yield* old.unsafe("COMMIT")
    return { settled, rounds }
  }).pipe(Effect.scoped)
  const ended = yield* measure
  yield* at.sql.unsafe("VACUUM (ANALYZE)").unprepared
  const vacuumed = yield* measure
  const phases = summarize([before, during.rounds, ended, vacuumed].map((rounds) => ({ ...at.size, rounds })))
  return { seconds: plan.seconds, rate: plan.rate, settled: during.settled, phases } satisfies SnapshotReport
})
