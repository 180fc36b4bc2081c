/** A ledger of a given size in a database of its own, and the services on it. */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { GrantIdentity } from "../../src/domain/Grant.ts"
import type { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import type { OperationId } from "../../src/domain/Operation.ts"
import { LocalPostgres } from "../../src/node/embedded/LocalPostgres.ts"
import { readerParameters } from "../../src/node/postgres/Pools.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { OperationStore } from "../../src/services/OperationStore.ts"
import { LedgerFigures } from "../../src/services/operators/LedgerFigures.ts"
import { Claims } from "../../src/services/queue/Claims.ts"
import { Outcomes } from "../../src/services/queue/Outcomes.ts"
import { Rescues } from "../../src/services/queue/Rescues.ts"
import { StatusReads } from "../../src/services/queue/StatusReads.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import { withoutTriggers } from "../shared/database.ts"
import { withProgress } from "../shared/progress.ts"
import { say } from "../shared/report.ts"
import { withoutIndexes } from "./indexes.ts"

/** An operation of the seed, and the grant that may read it. */
interface Seeded extends GrantIdentity {
  readonly id: OperationId
  readonly key: IdempotencyKey
}

export interface LedgerSize {
  readonly operations: number
  readonly unsettled: number
  readonly history: number
  readonly owners: number
  /** Bytes of the database with its indexes. */
  readonly bytes: number
}

export interface GrowthLedger {
  readonly size: LedgerSize
  /** One connection, for what writes. */
  readonly sql: SqlClient.SqlClient
  /** One connection with the settings of the readers. */
  readonly reader: SqlClient.SqlClient
  readonly ledger: OperationLedger["Service"]
  readonly claims: Claims["Service"]
  readonly outcomes: Outcomes["Service"]
  readonly statusReads: StatusReads["Service"]
  readonly rescues: Rescues["Service"]
  readonly figures: LedgerFigures["Service"]
  readonly store: OperationStore["Service"]
  /** Chosen at random from the whole ledger. */
  readonly samples: ReadonlyArray<Seeded>
  /** Grants of the provider that the rounds work for, chosen at random. */
  readonly grants: ReadonlyArray<GrantIdentity>
}

/** The provider that the rounds work for: a third of the ledger. */
export const provider = "bank-0"

const clients = 50
const operationsOfOwner = 100
/** Few random choices would all stay in the buffers. */
const sampleCount = 20_000

/** Rows of one statement of the seed. */
const batch = 100_000

const insertGrants = [
  `INSERT INTO clients (id) SELECT 'client-' || n FROM generate_series(0, ${clients - 1}) n`,
  `CREATE TABLE seeded_grants AS
    SELECT n::int AS place, uuidv7() AS id, uuidv7() AS provider_connection_id, 'client-' || n % ${clients} AS client_id,
      'owner-' || n AS resource_owner, 'subject-of-owner-' || n AS subject, 'bank-' || n % 3 AS provider
    FROM generate_series(0, $1::int - 1) n`,
  "ALTER TABLE seeded_grants ADD PRIMARY KEY (place)",
  `INSERT INTO provider_connections (id, resource_owner, provider)
    SELECT provider_connection_id, resource_owner, provider FROM seeded_grants ORDER BY place`,
  `INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at)
    SELECT id, client_id, resource_owner, subject, provider_connection_id, ARRAY['operations:read', 'operations:write'],
      now() + interval '1 year'
    FROM seeded_grants ORDER BY place`,
  "VACUUM ANALYZE"
]

/**
 * One operation a second until now, each of an owner that a hash chooses; one in a hundred is unsettled. Its next action is far
 * away, so that the rounds find only their own. Ids are as old as their operations. Keys are random, as those of clients are.
 */
const insertOperations = `
  WITH added AS (
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
      request_digest, state, revision, created_at, updated_at, completed_at, failure_code, failure_message, provider,
      due_at, timeline, waiting, send_before, change_position)
    SELECT uuidv7(o.created_at - clock_timestamp()), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id,
      CASE n % 10 WHEN 0 THEN 'payment.refund' WHEN 1 THEN 'transfer' ELSE 'payment' END, md5(n::text),
      sha256(convert_to(n::text, 'UTF8')), o.state,
      CASE o.state WHEN 'accepted' THEN 1 WHEN 'submitting' THEN 2 WHEN 'cancelled' THEN 2 ELSE 3 END,
      o.created_at, CASE WHEN o.settled THEN o.created_at + interval '2 seconds' ELSE now() END,
      CASE WHEN o.settled THEN o.created_at + interval '2 seconds' END,
      CASE o.state WHEN 'failed' THEN 'account_closed' END,
      CASE o.state WHEN 'failed' THEN 'The account of the recipient is closed.' END,
      g.provider, CASE WHEN NOT o.settled THEN now() + interval '1 day' END, (SELECT ledger_timeline()), o.state = 'accepted',
      CASE WHEN o.state = 'submitting' THEN now() + interval '1 hour' END, 1 + n / 3
    FROM generate_series($1::bigint, $2::bigint) AS n
    CROSS JOIN LATERAL (
      SELECT date_trunc('milliseconds', now() - ($3::bigint - n) * interval '1 second') AS created_at, n % 100 > 0 AS settled,
        CASE
          WHEN n % 100 = 0 THEN (ARRAY['accepted', 'submitting', 'submitted', 'indeterminate'])[1 + n / 100 % 4]
          WHEN n % 100 > 97 THEN 'failed'
          WHEN n % 100 = 97 THEN 'cancelled'
          ELSE 'succeeded'
        END AS state
    ) AS o
    JOIN seeded_grants g ON g.place = (n * 2654435761 % 4294967296) % $4::int
    RETURNING id, client_id, state, created_at
  )
  INSERT INTO operation_history (operation_id, client_id, revision, from_state, to_state, at, evidence)
  SELECT id, client_id, h.revision, h.from_state, h.to_state, created_at + (h.revision - 1) * interval '1 second',
    CASE WHEN h.revision = 3 THEN '{"provider_status":"settled"}'::json END
  FROM added a CROSS JOIN LATERAL (VALUES
    (1, NULL, 'accepted'),
    (2, 'accepted', CASE a.state WHEN 'cancelled' THEN 'cancelled' WHEN 'accepted' THEN NULL ELSE 'submitting' END),
    (3, 'submitting', CASE WHEN a.state NOT IN ('accepted', 'submitting', 'cancelled') THEN a.state END)
  ) AS h (revision, from_state, to_state)
  WHERE h.to_state IS NOT NULL`

const sampleOperations = `
  SELECT o.id, o.idempotency_key AS key, o.grant_id, o.client_id, o.subject
  FROM operations o
  WHERE o.idempotency_key = ANY (
    SELECT md5(floor(1 + random() * $1::int)::int::text) FROM generate_series(1, ${sampleCount})
  )
  ORDER BY random()`

const sampleGrants = `
  SELECT g.id AS grant_id, g.client_id, g.subject FROM grants g
  JOIN provider_connections p ON p.id = g.provider_connection_id AND p.provider = '${provider}'
  ORDER BY random() LIMIT ${sampleCount}`

const sizeOf = `
  SELECT (SELECT count(*) FROM operations)::float8 AS operations,
    (SELECT count(*) FROM operations WHERE completed_at IS NULL)::float8 AS unsettled,
    (SELECT count(*) FROM operation_history)::float8 AS history, (SELECT count(*) FROM grants)::float8 AS owners,
    pg_database_size(current_database())::float8 AS bytes`

/** Seeds the operations and their history without triggers and without most of the indexes, then builds those. */
const seed = Effect.fnUntraced(function*(size: number) {
  const sql = yield* SqlClient.SqlClient
  const owners = Math.max(operationsOfOwner, Math.floor(size / operationsOfOwner))
  for (const statement of insertGrants) {
    yield* statement.includes("$1")
      ? sql.unsafe(statement.replace("$1", String(owners))).unprepared
      : sql.unsafe(statement).unprepared
  }
  const insert = withProgress(
    { label: "Seeding", unit: "operations", total: size },
    (progress) =>
      Effect.gen(function*() {
        for (let first = 1; first <= size; first += batch) {
          const last = Math.min(size, first + batch - 1)
          yield* sql.unsafe(insertOperations, [first, last, size, owners])
          progress.advance(last - first + 1)
        }
      })
  )
  yield* withoutTriggers(withoutTriggers(withoutIndexes(insert), "operation_history"))
  yield* sql`SELECT recount_operations()`
  yield* sql.unsafe("DROP TABLE seeded_grants").unprepared
  yield* sql.unsafe("VACUUM (ANALYZE)").unprepared
  yield* sql.unsafe("CHECKPOINT").unprepared
})

/** A client with one connection to this database. */
export const connect = Effect.fnUntraced(function*(database: string, startupParameters: Record<string, string> = {}) {
  const { port, socketDirectory, username } = yield* LocalPostgres
  const context = yield* Layer.build(Layer.fresh(
    PgClient.layer({
      host: socketDirectory,
      port,
      username,
      database,
      maxConnections: 1,
      startupParameters,
      // The same backend in each round, with its plans and caches.
      idleTimeout: "1 day"
    })
  ))
  return Context.get(context, SqlClient.SqlClient)
})

const { default_transaction_read_only, enable_bitmapscan, enable_seqscan, enable_sort, jit } = readerParameters

/** The comment of a database whose seed is complete. */
const seeded = "seeded"

/** Whether an earlier run seeded the database. What an interrupted seed left is dropped. */
const isSeeded = Effect.fnUntraced(function*(database: string) {
  const server = yield* SqlClient.SqlClient
  const [row] = yield* server.unsafe<{ readonly comment: string | null }>(
    "SELECT shobj_description(oid, 'pg_database') AS comment FROM pg_database WHERE datname = $1",
    [database]
  )
  if (row?.comment === seeded) return true
  yield* server.unsafe(`DROP DATABASE IF EXISTS ${database}`).unprepared
  yield* server.unsafe(`CREATE DATABASE ${database}`).unprepared
  return false
})

/**
 * Seeds a database of its own with this many operations, unless an earlier run has. Its connections are open for as long as the
 * scope.
 */
export const openLedger = Effect.fnUntraced(function*(database: string, size: number) {
  const isThere = yield* isSeeded(database)
  const sql = yield* connect(database)
  const reader = yield* connect(database, {
    default_transaction_read_only,
    enable_bitmapscan,
    enable_seqscan,
    enable_sort,
    jit
  })
  if (!isThere) {
    yield* Effect.provideService(Effect.andThen(migrate, seed(size)), SqlClient.SqlClient, sql)
    yield* sql.unsafe(`COMMENT ON DATABASE ${database} IS '${seeded}'`).unprepared
  }
  const [found] = yield* sql.unsafe<LedgerSize>(sizeOf).unprepared
  yield* say(
    `A ledger of ${found!.operations.toLocaleString("en")} operations takes ${(found!.bytes / 1e9).toFixed(1)} GB`
  )
  const write = Layer.fresh(Layer.mergeAll(OperationLedger.layer, SubmissionQueue.layer, LedgerFigures.layer)).pipe(
    Layer.provide(Layer.succeed(SqlClient.SqlClient, sql))
  )
  const read = Layer.fresh(OperationStore.layer).pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, reader)))
  const services = yield* Layer.build(Layer.merge(write, read))
  const ledger: GrowthLedger = {
    size: found!,
    sql,
    reader,
    ledger: Context.get(services, OperationLedger),
    claims: Context.get(services, Claims),
    outcomes: Context.get(services, Outcomes),
    statusReads: Context.get(services, StatusReads),
    rescues: Context.get(services, Rescues),
    figures: Context.get(services, LedgerFigures),
    store: Context.get(services, OperationStore),
    samples: yield* sql.unsafe<Seeded>(sampleOperations, [size]),
    grants: yield* sql.unsafe<GrantIdentity>(sampleGrants)
  }
  return ledger
})

/** Reads tables and indexes of the ledger into `shared_buffers`. */
export const warm = ({ sql }: GrowthLedger) =>
  Effect.andThen(
    sql.unsafe("CREATE EXTENSION IF NOT EXISTS pg_prewarm").unprepared,
    sql.unsafe(`
      SELECT sum(pg_prewarm(oid)) FROM pg_class
      WHERE relkind IN ('r', 'i') AND relnamespace = current_schema()::regnamespace`)
  )
