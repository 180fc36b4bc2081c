/**
 * The comparison of the ledger with its witness: what it needs, what it proves, and what the ledger does then.
 *
 * One transaction compares and acts. Its first statement takes the row of `ledger_home`, only if epoch and life are those that the
 * verifier read before it fenced the witness. So of several verifiers one acts, and none acts on another history.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ClaimBatch } from "../../domain/Submission.ts"
import { holdAllStatement, keepWaitingStatement, released } from "../../services/sql/queue/SqlHolds.ts"
import { awaitsApproval, endClaims, heldByOperator, isHome } from "../../services/sql/queueFragments.ts"
import { orUnavailable, type StoreUnavailable } from "../../services/StoreUnavailable.ts"

/** A batch that the witness has and the ledger lacks. */
interface MissingBatch extends ClaimBatch {
  /** The last one that the ledger has, or 0. */
  readonly present: number
}

/** What the ledger has of its witness. */
export interface WitnessState {
  /** Null: the ledger has no witness. */
  readonly epoch: string | null
  /** The present life. */
  readonly life: string
  /** Whether the epoch was set in the present life. Otherwise no worker claims. */
  readonly isCurrent: boolean
  /** Milliseconds since the epoch was set. */
  readonly age: number
  /** A verification proved that no sent claim was lost, and its checkpoint may not be in the witness yet. */
  readonly isReleaseDue: boolean
}

/**
 * - `begun`: the ledger has its witness from now on. What only the timeline held gets a hold, so no later proof releases it.
 * - `proven`: no sent claim was lost. Once the witness has the checkpoint, all operations that only the timeline held are released.
 * - `unsettled`: no witnessed claim was lost, but one from before the witness may be. Otherwise as `begun`.
 * - `missing`: sent claims were lost. All accepted operations are held.
 * - `unprovable`: the ledger or the witness does not know of the other. All accepted operations are held.
 */
export type VerificationResult = "begun" | "proven" | "unsettled" | "missing" | "unprovable"

/** What a verification found and did. */
export interface Verification {
  readonly result: VerificationResult
  readonly held: number
  readonly missing: ReadonlyArray<MissingBatch>
}

/** What a verification compares with the ledger. */
export interface VerificationRequest {
  /** What the verifier read of the ledger before it fenced the witness. */
  readonly expected: Pick<WitnessState, "epoch" | "life">
  /** The epoch with which it fenced the witness, and the next one of the ledger. */
  readonly epoch: string
  /** All batches in the witness after the fence. */
  readonly batches: ReadonlyArray<ClaimBatch>
  /** Whether the witness had an epoch. */
  readonly hadEpoch: boolean
}

/** The batch of a verification. Its presence proves all that the verification compared. */
export const checkpointOf = (epoch: string, life: string): ClaimBatch => ({
  epoch,
  worker: epoch,
  life,
  provider: "",
  batch: 1
})

/** The statements of the verifier. Tests have them in memory, too. */
export interface Verifications {
  /** What the ledger has of its witness. */
  readonly readWitnessState: Effect.Effect<WitnessState, StoreUnavailable>
  /**
   * Compares the ledger with the batches in its witness, and holds what follows from that: see `VerificationResult`. The caller has
   * fenced the witness. Null: epoch or life are no longer the expected ones, and nothing was done.
   *
   * After `StoreUnavailable` it is unknown whether that happened. Begin anew, with another epoch.
   */
  readonly verify: (request: VerificationRequest) => Effect.Effect<Verification | null, StoreUnavailable>
  /**
   * Releases the operations that only the timeline holds, after a `proven` verification with this epoch, in the same life. Returns how
   * many; null if that is not due any more. Call it after the witness has the checkpoint of the epoch. Then no other history can
   * send them: its verification lacks the checkpoint.
   */
  readonly releaseProven: (epoch: string, life: string) => Effect.Effect<number | null, StoreUnavailable>
  /** Removes the rows of batches from before this epoch, if it is the present one. Call it after the witness has forgotten them. */
  readonly forgetBatches: (epoch: string) => Effect.Effect<void, StoreUnavailable>
}

/** What the history says of the claims of a ledger that lacks a batch which its witness has. */
export const missingBatchEvidence = {
  by: "witness",
  reason: "the ledger lacks sent claims, and a worker may have sent the operation in the history that was lost"
} as const

interface Comparison {
  /** Whether the witness had an epoch. */
  readonly hadEpoch: boolean
  /** Whether the ledger had one. */
  readonly isWitnessed: boolean
  readonly isSettled: boolean
  /** Batches in the witness. */
  readonly batches: number
  /** Those that the ledger lacks. */
  readonly missing: number
}

/** What the comparison of a ledger with its witness proves. */
export const resultOf = (
  { batches, hadEpoch, isSettled, isWitnessed, missing }: Comparison
): VerificationResult => {
  // A verifier that stopped after its fence leaves an epoch without batches.
  if (!isWitnessed && batches === 0) return "begun"
  if (missing > 0) return "missing"
  // A history from before the witness, or a witness that forgot.
  if (!isWitnessed || !hadEpoch) return "unprovable"
  return isSettled ? "proven" : "unsettled"
}

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
    yield* sql.unsafe(keepWaitingStatement, [null])
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
  WHERE h.epoch IS NOT DISTINCT FROM $1::uuid AND ledger_life() = $2 AND ${isHome}
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

/** Holds those that only the timeline held until now. No hold proves anything any more. An examination still counts: an operator can release them. */
const keepHeldStatement = `
  UPDATE operations o SET hold_placed = true, unsent_in = NULL
  WHERE o.state = 'accepted' AND (NOT o.hold_placed OR ${awaitsApproval} OR ${heldByOperator}) AND o.timeline < (SELECT ledger_timeline())`

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
