/**
 * The comparison of the ledger with its witness, in PostgreSQL.
 *
 * One transaction compares and acts. Its first statement takes the row of `ledger_home`, only if epoch and life are those that the
 * verifier read before it fenced the witness. So of several verifiers one acts, and none acts on another history.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { holdAllStatement, released } from "../../services/sql/queue/SqlHolds.ts"
import { endClaims } from "../../services/sql/queueFragments.ts"
import { orUnavailable } from "../../services/StoreUnavailable.ts"
import {
  checkpointOf,
  type MissingBatch,
  missingBatchEvidence,
  resultOf,
  type Verification,
  type VerificationRequest,
  type Verifications,
  type WitnessState
} from "./Verifications.ts"

interface StateRow {
  readonly epoch: string | null
  readonly life: string
  readonly is_current: boolean
  readonly age: number
  readonly is_due_to_settle: boolean
  readonly is_release_due: boolean
}

export const makeSqlVerifications = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const readWitnessState = Effect.gen(function*() {
    const [row] = yield* orUnavailable(sql.unsafe<StateRow>(stateStatement))
    const { age, epoch, is_current, is_due_to_settle, is_release_due, life } = row!
    if (is_due_to_settle) yield* orUnavailable(sql.unsafe(settleStatement))
    return { epoch, life, isCurrent: is_current, age, isReleaseDue: is_release_due } satisfies WitnessState
  }).pipe(Effect.withSpan("Verifications.readWitnessState"))

  const count = (statement: string, parameters: ReadonlyArray<unknown> = []) =>
    Effect.map(sql.unsafe(statement, parameters), ({ length }) => length)

  /** Holds all operations that a worker may have sent in another history. */
  const holdEverything = Effect.gen(function*() {
    const held = yield* count(holdAllStatement)
    yield* sql.unsafe(endClaims("$1"), [JSON.stringify(missingBatchEvidence)])
    return held
  })

  const compare = Effect.fnUntraced(function*({ batches, epoch, expected, hadEpoch }: VerificationRequest) {
    yield* sql.unsafe("SET LOCAL statement_timeout = 0")
    const [home] = yield* sql.unsafe<{ readonly is_settled: boolean }>(takeHomeStatement, [
      expected.epoch,
      expected.life,
      epoch
    ])
    if (home === undefined) return null
    const listed = JSON.stringify(batches)
    const missing = yield* sql.unsafe<MissingBatch>(missingStatement, [listed])
    const result = resultOf({
      hadEpoch,
      isWitnessed: expected.epoch !== null,
      isSettled: home.is_settled,
      batches: batches.length,
      missing: missing.length
    })
    if (result === "proven") yield* sql.unsafe("UPDATE ledger_home SET is_release_due = true")
    // Else the next proof would release them, and it knows nothing of what was sent before this comparison.
    if (result === "begun" || result === "unsettled") yield* sql.unsafe(keepHeldStatement)
    const mustHold = result === "missing" || result === "unprovable"
    const held = mustHold ? yield* holdEverything : 0
    if (mustHold) yield* sql.unsafe(adoptStatement, [listed])
    yield* sql.unsafe(adoptStatement, [JSON.stringify([checkpointOf(epoch, expected.life)])])
    yield* sql.unsafe(recordStatement, [epoch, expected.life, result, held, JSON.stringify(missing)])
    return { result, held, missing } satisfies Verification
  })

  const verify = Effect.fn("Verifications.verify")((request: VerificationRequest) =>
    orUnavailable(sql.withTransaction(compare(request)))
  )

  const release = Effect.fnUntraced(function*(epoch: string, life: string) {
    yield* sql.unsafe("SET LOCAL statement_timeout = 0")
    if ((yield* count(takeReleaseStatement, [epoch, life])) === 0) return null
    const released = yield* count(releaseStatement)
    yield* sql.unsafe("UPDATE witness_checks SET released = $2 WHERE epoch = $1::uuid", [epoch, released])
    return released
  })

  const releaseProven = Effect.fn("Verifications.releaseProven")((epoch: string, life: string) =>
    orUnavailable(sql.withTransaction(release(epoch, life)))
  )

  const forgetBatches = Effect.fn("Verifications.forgetBatches")((epoch: string) =>
    Effect.asVoid(orUnavailable(sql.unsafe(forgetStatement, [epoch])))
  )

  return { readWitnessState, verify, releaseProven, forgetBatches } satisfies Verifications
})

/** A claim without a witness that began before the ledger had one has ended by then: the pool cancels it after four seconds. */
const settling = "interval '1 minute'"

const isDueToSettle =
  `h.epoch_life = ledger_life() AND NOT h.is_witness_settled AND h.witnessed_since < now() - ${settling}`

const stateStatement = `
  SELECT h.epoch, ledger_life() AS life, coalesce(h.epoch_life = ledger_life(), false) AS is_current,
    coalesce(extract(epoch FROM now() - h.epoch_at) * 1000, 0)::float8 AS age,
    coalesce(${isDueToSettle}, false) AS is_due_to_settle, h.is_release_due
  FROM ledger_home h`

const settleStatement = `UPDATE ledger_home h SET is_witness_settled = true WHERE ${isDueToSettle}`

/** Takes the row of the home, and gives it the next epoch. No row: another verifier was faster, or this is another history. */
const takeHomeStatement = `
  UPDATE ledger_home h
  SET epoch = $3::uuid, epoch_life = $2, epoch_at = now(), is_release_due = false, witnessed_since = coalesce(h.witnessed_since, now())
  FROM pg_control_system() s, pg_database d
  WHERE h.epoch IS NOT DISTINCT FROM $1::uuid AND ledger_life() = $2
    AND s.system_identifier = h.system_identifier AND d.oid = h.database AND d.datname = current_database()
  RETURNING h.is_witness_settled AS is_settled`

const listed = `jsonb_to_recordset($1::jsonb) AS w (epoch text, worker uuid, life text, provider text, batch bigint)`

const missingStatement = `
  SELECT w.epoch, w.worker, w.life, w.provider, w.batch::float8 AS batch, coalesce(b.batch, 0)::float8 AS present
  FROM ${listed} LEFT JOIN claim_batches b USING (worker, life, provider)
  WHERE b.batch IS NULL OR b.batch < w.batch
  ORDER BY w.life, w.worker, w.provider`

const takeReleaseStatement = `
  UPDATE ledger_home SET is_release_due = false
  WHERE is_release_due AND epoch = $1::uuid AND epoch_life = $2 AND ledger_life() = $2 RETURNING 1`

/** Holds those that only the timeline held until now. An examination still counts: a status read can release them. */
const keepHeldStatement = `
  UPDATE operations SET hold_placed = true
  WHERE state = 'accepted' AND NOT hold_placed AND timeline < (SELECT ledger_timeline())`

/** Those that only the timeline holds. `releaseAll` also releases those with a hold. */
const releaseStatement = `
  UPDATE operations o SET ${released}
  WHERE o.state = 'accepted' AND NOT o.hold_placed AND o.timeline < (SELECT ledger_timeline()) AND NOT o.acknowledged
  RETURNING 1`

/** All that the missing batches sent is held now, so these batches need no more proof. */
const adoptStatement = `
  INSERT INTO claim_batches AS b (worker, life, provider, batch)
  SELECT w.worker, w.life, w.provider, max(w.batch) FROM ${listed} GROUP BY 1, 2, 3
  ON CONFLICT (worker, life, provider) DO UPDATE SET batch = greatest(b.batch, excluded.batch), updated_at = now()`

const recordStatement = `
  INSERT INTO witness_checks (epoch, life, result, held, missing)
  VALUES ($1::uuid, $2, $3, $4, $5::jsonb)`

/**
 * Call it after the witness forgot the batches of earlier epochs. A row without a change since then has none in the witness. If a row
 * is missed after all, the next verification holds the operations.
 */
const forgetStatement = `
  DELETE FROM claim_batches b USING ledger_home h
  WHERE h.epoch = $1::uuid AND h.epoch_life = ledger_life() AND b.updated_at < h.epoch_at - interval '1 hour' AND b.worker <> h.epoch`
