/**
 * The two queues of the benchmark: the ledger, and the queue of the peer.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant } from "../../src/domain/Grant.ts"
import { AcceptanceSignal } from "../../src/services/AcceptanceSignal.ts"
import { concurrency, payloadOf, peerChannel } from "./config.ts"

export type Answer = Parameters<typeof payloadOf>[0]

interface Row {
  readonly id: string
}

export interface Queue {
  readonly name: "ledger" | "peer"
  /** Adds `count` submissions to the queue in one transaction, and yields their ids. */
  readonly fill: (prefix: string, count: number, answer: Answer) => Effect.Effect<ReadonlyArray<string>>
  /** Wakes the workers. */
  readonly announce: Effect.Effect<void>
  /** Whether the queue is empty and all its work is done. */
  readonly isDone: Effect.Effect<boolean>
  /** The number of these ids that did not succeed. */
  readonly unsuccessful: (ids: ReadonlyArray<string>) => Effect.Effect<number>
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
    name: "ledger",
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

const createPeer = [
  "CREATE SCHEMA peer",
  `CREATE TABLE peer.jobs (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    payload json NOT NULL,
    state text NOT NULL DEFAULT 'waiting',
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
  )`,
  "CREATE INDEX ON peer.jobs (id) WHERE state = 'waiting'"
]

const fillPeer = `
  INSERT INTO peer.jobs (payload) SELECT $2::json FROM generate_series(1, $1::int) RETURNING id`

const unsuccessfulJobs =
  "SELECT count(*)::int AS count FROM peer.jobs WHERE id = ANY ($1::uuid[]) AND state <> 'succeeded'"

/** Creates the table of the peer, and ages it like the ledger. */
export const makePeerQueue = Effect.fnUntraced(function*(age: number) {
  const sql = yield* SqlClient.SqlClient
  for (const statement of createPeer) yield* sql.unsafe(statement).unprepared
  const queue: Queue = {
    name: "peer",
    fill: (_, count, answer) =>
      sql.unsafe<Row>(fillPeer, [count, JSON.stringify(payloadOf(answer))]).pipe(
        Effect.map((rows) => rows.map(({ id }) => id)),
        Effect.orDie
      ),
    announce: Effect.orDie(Effect.asVoid(sql`SELECT pg_notify(${peerChannel}, ${String(concurrency)})`)),
    isDone: Effect.map(
      Effect.orDie(sql`SELECT 1 FROM peer.jobs WHERE state = 'waiting' LIMIT 1`),
      (rows) => rows.length === 0
    ),
    unsuccessful: (ids) =>
      sql.unsafe<{ readonly count: number }>(unsuccessfulJobs, [ids]).pipe(
        Effect.map(([row]) => row!.count),
        Effect.orDie
      )
  }
  yield* queue.fill("", age, "at once")
  yield* sql`UPDATE peer.jobs SET state = 'succeeded', finished_at = now()`
  return queue
}, Effect.orDie)
