/** The ledger as a queue of submissions. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant } from "../../src/domain/Grant.ts"
import { AcceptanceSignal } from "../../src/services/WorkSignals.ts"
import { payloadOf } from "./config.ts"
import type { Queue } from "./queue.ts"

interface Row {
  readonly id: string
}

/** The triggers run, so that each row costs as much as an acceptance. */
const fillLedger = `
  WITH accepted AS (
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
      request_digest, state, revision)
    SELECT uuidv7(), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id, 'payment', $2::text || n,
      sha256(convert_to('{"payload":' || $4::text || ',"type":"payment"}', 'UTF8')), 'accepted', 1
    FROM grants g CROSS JOIN generate_series(1, $3::int) AS n
    WHERE g.id = $1
    RETURNING id, client_id
  ), payloads AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload)
    SELECT id, client_id, convert_to($4::text, 'UTF8') FROM accepted
  )
  SELECT id FROM accepted`

/**
 * Adds settled operations to an empty ledger, and runs ANALYZE. Otherwise PostgreSQL plans for an empty table and keeps
 * those plans until the next ANALYZE: it then checks foreign keys by scans.
 */
export const ageLedger = Effect.fnUntraced(function*({ fill }: Queue, count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* fill("first-", 100, "at once")
  yield* sql.unsafe("ANALYZE").unprepared
  yield* fill("old-", count, "at once")
  yield* sql.unsafe("UPDATE operations SET state = 'cancelled', revision = 2 WHERE state = 'accepted'")
}, Effect.orDie)

const ledgerIsDone = `
  SELECT NOT EXISTS (SELECT FROM operations WHERE state = 'accepted')
    AND NOT EXISTS (SELECT FROM operations WHERE state = 'submitting')
    AND NOT EXISTS (SELECT FROM operations WHERE state IN ('submitted', 'indeterminate')) AS done`

const unsuccessfulOperations =
  "SELECT count(*)::int AS count FROM operations WHERE id = ANY ($1::uuid[]) AND state <> 'succeeded'"

export const makeLedgerQueue = Effect.fnUntraced(function*(grant: Grant) {
  const sql = yield* SqlClient.SqlClient
  const signal = yield* AcceptanceSignal
  const queue: Queue = {
    fill: (prefix, count, answer) =>
      sql.unsafe<Row>(fillLedger, [grant.grant_id, prefix, count, JSON.stringify(payloadOf(answer))]).pipe(
        Effect.map((rows) => rows.map(({ id }) => id)),
        Effect.orDie
      ),
    announce: signal.announce(grant.provider),
    isDone: sql.unsafe<{ readonly done: boolean }>(ledgerIsDone).pipe(
      Effect.map(([row]) => row!.done),
      Effect.orDie
    ),
    unsuccessful: (ids) =>
      sql.unsafe<{ readonly count: number }>(unsuccessfulOperations, [ids]).pipe(
        Effect.map(([row]) => row!.count),
        Effect.orDie
      )
  }
  return queue
})
