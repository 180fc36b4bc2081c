/**
 * A witness in a second PostgreSQL, which must not be a server of the ledger's cluster.
 *
 * The row of the epoch orders all steps: a fence updates it, and a record locks it. The server must keep acknowledged commits, so
 * it refuses one with `fsync` or `synchronous_commit` off. If it has standbys, they must be synchronous.
 */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { ClaimBatch } from "../domain/ClaimBatch.ts"
import { type WitnessStore, WitnessUnavailable } from "./Witness.ts"

/** The message of a database has no value of a statement here: the statements cannot break a rule of a row. */
const unavailable = <A>(effect: Effect.Effect<A, SqlError>): Effect.Effect<A, WitnessUnavailable> =>
  Effect.mapError(effect, ({ reason }) => new WitnessUnavailable({ reason: `the witness database: ${reason._tag}` }))

const tables = `
  DO $$
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('witness_epoch'));
    IF to_regclass('witness_epoch') IS NULL OR to_regclass('witness_batches') IS NULL THEN
      CREATE TABLE IF NOT EXISTS witness_epoch (ledger text PRIMARY KEY, epoch uuid NOT NULL);
      CREATE TABLE IF NOT EXISTS witness_batches (
        ledger text NOT NULL,
        epoch uuid NOT NULL,
        worker uuid NOT NULL,
        life text NOT NULL,
        provider text NOT NULL,
        batch bigint NOT NULL,
        PRIMARY KEY (ledger, epoch, worker, life, provider)
      ) WITH (fillfactor = 20);
    END IF;
  END $$`

const checkServer = `
  SELECT system_identifier::text AS cluster, pg_is_in_recovery() AS in_recovery, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit
  FROM pg_control_system()`

interface Server {
  readonly cluster: string
  readonly in_recovery: boolean
  readonly fsync: string
  readonly synchronous_commit: string
}

/** `FOR SHARE` waits for a fence under way and sees what it committed; a plain read would see the epoch before. */
const isPresent = "EXISTS (SELECT FROM (SELECT FROM witness_epoch WHERE ledger = $1 AND epoch = $2::uuid FOR SHARE) e)"

const putBatch = (condition: string) => `
  INSERT INTO witness_batches AS b (ledger, epoch, worker, life, provider, batch)
  SELECT $1, $2::uuid, $3::uuid, $4, $5, $6::bigint WHERE ${condition}
  ON CONFLICT (ledger, epoch, worker, life, provider) DO UPDATE SET batch = excluded.batch
  WHERE b.batch < excluded.batch RETURNING 1`

const valuesOf = (ledger: string, { batch, epoch, life, provider, worker }: ClaimBatch) => [
  ledger,
  epoch,
  worker,
  life,
  provider,
  batch
]

export interface PostgresWitnessOptions {
  /** Tells the witnesses of several ledgers in one database apart. */
  readonly ledger: string
  /** `system_identifier` of the ledger's cluster, which the witness must not be. */
  readonly ledgerCluster: Effect.Effect<string, WitnessUnavailable>
}

/** Creates the tables, if they are missing. Fails if the server cannot be a witness. */
export const makePostgresWitness = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  { ledger, ledgerCluster }: PostgresWitnessOptions
) {
  const check = Effect.gen(function*() {
    const [server] = yield* unavailable(sql.unsafe<Server>(checkServer))
    if (server!.cluster === (yield* ledgerCluster)) {
      return yield* new WitnessUnavailable({
        reason: "WITNESS is the database cluster of the ledger, which cannot be its own witness"
      })
    }
    if (server!.in_recovery) return yield* new WitnessUnavailable({ reason: "WITNESS is a server in recovery" })
    if (server!.fsync === "off" || server!.synchronous_commit === "off") {
      return yield* new WitnessUnavailable({
        reason: "WITNESS could forget commits: turn fsync and synchronous_commit on"
      })
    }
  })
  yield* check
  yield* unavailable(sql.unsafe(tables).unprepared)

  const epoch = Effect.map(
    unavailable(
      sql.unsafe<{ readonly epoch: string }>("SELECT epoch FROM witness_epoch WHERE ledger = $1", [ledger])
    ),
    ([row]) => row?.epoch ?? null
  )
  const fence = (from: string | null, to: string) =>
    Effect.map(
      unavailable(
        from === null
          ? sql.unsafe(
            "INSERT INTO witness_epoch (ledger, epoch) VALUES ($1, $2::uuid) ON CONFLICT DO NOTHING RETURNING 1",
            [ledger, to]
          )
          : sql.unsafe(
            "UPDATE witness_epoch SET epoch = $2::uuid WHERE ledger = $1 AND epoch = $3::uuid RETURNING 1",
            [ledger, to, from]
          )
      ),
      (rows) => rows.length > 0
    )
  const batches = unavailable(
    sql.unsafe<ClaimBatch>(
      "SELECT epoch, worker, life, provider, batch::float8 AS batch FROM witness_batches WHERE ledger = $1",
      [ledger]
    )
  )
  const record = (batch: ClaimBatch) =>
    Effect.map(
      unavailable(sql.unsafe(putBatch(isPresent), valuesOf(ledger, batch))),
      (rows) => rows.length > 0
    )
  const compact = (checkpoint: ClaimBatch) =>
    Effect.map(
      unavailable(
        sql.unsafe<{ readonly is_present: boolean }>(
          `WITH present AS MATERIALIZED (
            SELECT ${isPresent} AS is_present
          ), removed AS (
            DELETE FROM witness_batches WHERE ledger = $1 AND epoch <> $2::uuid AND (SELECT is_present FROM present)
          ), kept AS (${putBatch("(SELECT is_present FROM present)")})
          SELECT is_present FROM present`,
          valuesOf(ledger, checkpoint)
        )
      ),
      ([row]) => row!.is_present
    )
  return { epoch, fence, batches, record, compact } satisfies WitnessStore
})
