/**
 * A witness in a second PostgreSQL, which must not be a server of the ledger's cluster.
 *
 * The row of the epoch orders all steps: a fence updates it, and the others lock it. The server must keep acknowledged commits, and
 * must not fail over by itself: no standby confirms its commits.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { ClaimBatch } from "../../domain/Submission.ts"
import { type WitnessStore, WitnessUnavailable } from "./Witness.ts"

/** The server can never be the witness of this ledger. */
export class UnsuitableWitness extends Data.TaggedError("UnsuitableWitness")<{ readonly message: string }> {}

/** The message of a driver may quote a setting. */
const unavailable = <A>(effect: Effect.Effect<A, SqlError>): Effect.Effect<A, WitnessUnavailable> =>
  Effect.mapError(effect, ({ reason }) => new WitnessUnavailable({ reason: `PostgreSQL: ${reason._tag}` }))

const createTables = `
  DO $$
  BEGIN
    IF to_regclass('witness_epoch') IS NULL OR to_regclass('witness_batches') IS NULL THEN
      PERFORM pg_advisory_xact_lock(hashtext('witness_epoch'));
      CREATE TABLE IF NOT EXISTS witness_epoch (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        epoch uuid NOT NULL
      );
      CREATE TABLE IF NOT EXISTS witness_batches (
        epoch uuid NOT NULL,
        worker uuid NOT NULL,
        life text NOT NULL,
        provider text NOT NULL,
        batch bigint NOT NULL,
        PRIMARY KEY (epoch, worker, life, provider)
      ) WITH (fillfactor = 20);
    END IF;
  END $$`

interface Server {
  readonly cluster: string
  readonly in_recovery: boolean
  readonly fsync: string
  readonly synchronous_commit: string
}

const checkServer = `
  SELECT system_identifier::text AS cluster, pg_is_in_recovery() AS in_recovery, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit
  FROM pg_control_system()`

/** `system_identifier` of a cluster. Its standbys have the same one. */
export const clusterOf = (sql: SqlClient.SqlClient): Effect.Effect<string, WitnessUnavailable> =>
  Effect.map(unavailable(sql.unsafe<Server>(checkServer)), ([server]) => server!.cluster)

/** `FOR SHARE` waits for a fence under way and sees what it committed; a plain read would see the epoch before. */
const isPresent = "EXISTS (SELECT FROM (SELECT FROM witness_epoch WHERE epoch = $1::uuid FOR SHARE) e)"

const putBatch = (condition: string) => `
  INSERT INTO witness_batches AS b (epoch, worker, life, provider, batch)
  SELECT $1::uuid, $2::uuid, $3, $4, $5::bigint WHERE ${condition}
  ON CONFLICT (epoch, worker, life, provider) DO UPDATE SET batch = excluded.batch
  WHERE b.batch < excluded.batch RETURNING 1`

const compactStatement = `
  WITH present AS MATERIALIZED (
    SELECT ${isPresent} AS is_present
  ), removed AS (
    DELETE FROM witness_batches WHERE epoch <> $1::uuid AND (SELECT is_present FROM present)
  ), kept AS (${putBatch("(SELECT is_present FROM present)")})
  SELECT is_present FROM present`

/** The lock lets a standby refuse it. A server that was replaced has another epoch. */
const batchesStatement = `
  WITH present AS MATERIALIZED (
    SELECT ${isPresent} AS is_present
  )
  SELECT p.is_present, b.epoch, b.worker, b.life, b.provider, b.batch::float8 AS batch
  FROM present p LEFT JOIN witness_batches b ON p.is_present`

/** Without batches there is one row of null. */
interface BatchRow {
  readonly is_present: boolean
  readonly epoch: string | null
}

const readBatches = (rows: ReadonlyArray<BatchRow>): ReadonlyArray<ClaimBatch> | null =>
  rows[0]!.is_present
    ? rows.filter((row): row is BatchRow & ClaimBatch => row.epoch !== null)
      .map(({ batch, epoch, life, provider, worker }) => ({ epoch, worker, life, provider, batch }))
    : null

const valuesOf = ({ batch, epoch, life, provider, worker }: ClaimBatch) => [epoch, worker, life, provider, batch]

/**
 * Makes the witness, and the check of its server, which also creates its tables. The first step makes the check, too, and repeats it
 * until it succeeds. `ledgerCluster` is the cluster of the ledger, which cannot be its own witness.
 */
export const makePostgresWitness = (
  sql: SqlClient.SqlClient,
  ledgerCluster: Effect.Effect<string, WitnessUnavailable>
) => {
  let isReady = false
  const ready: Effect.Effect<void, WitnessUnavailable | UnsuitableWitness> = Effect.gen(function*() {
    if (isReady) return
    const [server] = yield* unavailable(sql.unsafe<Server>(checkServer))
    const { cluster, fsync, in_recovery, synchronous_commit } = server!
    if (cluster === (yield* ledgerCluster)) {
      return yield* new UnsuitableWitness({
        message: "WITNESS is the database cluster of the ledger, which cannot be its own witness"
      })
    }
    if (fsync === "off" || synchronous_commit === "off") {
      return yield* new UnsuitableWitness({
        message: "WITNESS could forget commits: turn fsync and synchronous_commit on"
      })
    }
    if (in_recovery) return yield* new WitnessUnavailable({ reason: "PostgreSQL: the server is in recovery" })
    yield* unavailable(sql.unsafe(createTables).unprepared)
    isReady = true
  })
  const step = <A extends object, B>(
    statement: string,
    values: ReadonlyArray<unknown>,
    read: (rows: ReadonlyArray<A>) => B
  ): Effect.Effect<B, WitnessUnavailable> =>
    Effect.catchTag(
      ready,
      "UnsuitableWitness",
      ({ message }) => Effect.fail(new WitnessUnavailable({ reason: message }))
    ).pipe(
      Effect.andThen(Effect.suspend(() => unavailable(sql.unsafe<A>(statement, values)))),
      Effect.map(read)
    )
  const hasRow = (rows: ReadonlyArray<object>) => rows.length > 0

  const store: WitnessStore = {
    epoch: step<{ readonly epoch: string }, string | null>(
      "SELECT epoch FROM witness_epoch",
      [],
      ([row]) => row?.epoch ?? null
    ),
    fence: (from, to) =>
      from === null
        ? step("INSERT INTO witness_epoch (epoch) VALUES ($1::uuid) ON CONFLICT DO NOTHING RETURNING 1", [to], hasRow)
        : step("UPDATE witness_epoch SET epoch = $1::uuid WHERE epoch = $2::uuid RETURNING 1", [to, from], hasRow),
    batches: (epoch) => step(batchesStatement, [epoch], readBatches),
    record: (batch) => step(putBatch(isPresent), valuesOf(batch), hasRow),
    compact: (checkpoint) =>
      step<{ readonly is_present: boolean }, boolean>(
        compactStatement,
        valuesOf(checkpoint),
        ([row]) => row!.is_present
      )
  }
  return { ready, store }
}
