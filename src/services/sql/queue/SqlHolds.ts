/** Held operations in PostgreSQL: what places a hold on accepted operations, and what releases it. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import {
  type IllegalTransition,
  type Operation,
  type OperationId,
  OperationNotFound
} from "../../../domain/Operation.ts"
import { StillHeld, UnsafeDatabase } from "../../../domain/Submission.ts"
import type { HeldAll } from "../../queue/Holds.ts"
import { holdResult, releaseResult, rollbackEvidence } from "../../rules/ledgerRules.ts"
import { orUnavailable, type StoreUnavailable } from "../../StoreUnavailable.ts"
import { fromRow, type OperationRow, publicColumns } from "../OperationRow.ts"
import {
  awaitsApproval,
  claimableTimeline,
  endClaims,
  heldByOperator,
  isExamined,
  isFree,
  isHome,
  isUnsent,
  mayHold,
  needsDecision,
  placeHold,
  presentHome
} from "../queueFragments.ts"

/** Why an operation was neither held nor released. */
interface HoldRow extends OperationRow {
  readonly is_free: boolean
  readonly may_hold: boolean
  readonly is_examined: boolean
  readonly acknowledged: boolean
  readonly send_before: Date | null
  readonly needs_decision: boolean
}

export const makeHolds = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const settings = sql.unsafe<{ readonly fsync: string; readonly synchronous_commit: string }>(
    "SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit"
  )

  /** Runs statements without a timeout, because they may change all operations that are accepted. */
  const untimed = <A>(statements: Effect.Effect<A, SqlError>) =>
    orUnavailable(sql.withTransaction(Effect.andThen(sql.unsafe("SET LOCAL statement_timeout = 0"), statements)))

  const endAllClaims = sql.unsafe(endClaims("$1"), [JSON.stringify(rollbackEvidence)])

  const moveHome = Effect.tap(
    Effect.map(sql.unsafe(moveHomeStatement), ({ length }) => length > 0),
    (moved) => Effect.when(endAllClaims, Effect.succeed(moved))
  )

  const prepare = Effect.gen(function*() {
    const [row] = yield* orUnavailable(settings)
    for (const setting of ["fsync", "synchronous_commit"] as const) {
      if (row![setting] === "off") return yield* new UnsafeDatabase({ setting })
    }
    return { moved: yield* untimed(moveHome) }
  }).pipe(Effect.withSpan("Holds.prepare"))

  const holdEverything = Effect.gen(function*() {
    const held = yield* sql.unsafe(holdAllStatement)
    const ended = yield* endAllClaims
    return { held: held.length, indeterminate: ended.length } satisfies HeldAll
  })

  const hold: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable> =
    Effect.fn("Holds.hold")(function*(id: OperationId) {
      const [held] = yield* orUnavailable(sql.unsafe<OperationRow>(placeHoldStatement, [id]))
      if (held !== undefined) return fromRow(held)
      const [row] = yield* orUnavailable(sql.unsafe<HoldRow>(holdStatement, [id]))
      if (row === undefined) return yield* new OperationNotFound({ id })
      // Released between the two statements.
      return row.may_hold ? yield* hold(id) : yield* holdResult(fromRow(row))
    })

  const release = Effect.fn("Holds.release")(function*(id: OperationId) {
    const [released] = yield* orUnavailable(sql.unsafe<OperationRow>(releaseStatement, [id]))
    if (released !== undefined) return fromRow(released)
    const [row] = yield* orUnavailable(sql.unsafe<HoldRow>(holdStatement, [id]))
    if (row === undefined) return yield* new OperationNotFound({ id })
    if (row.needs_decision) return yield* new StillHeld({ id, reason: "approval", until: null })
    const send_before = row.send_before === null ? null : DateTime.fromDateUnsafe(row.send_before)
    return yield* releaseResult(fromRow(row), { ...row, send_before })
  })

  return {
    prepare,
    hold,
    release,
    releaseAll: untimed(Effect.map(sql.unsafe(releaseAllStatement), ({ length }) => length)),
    holdAll: untimed(holdEverything),
    /** The same after a condition, in the same transaction. Null: it does not hold. */
    holdAllIf: (condition: Effect.Effect<boolean, SqlError>) =>
      untimed(Effect.flatMap(condition, (holds) => holds ? holdEverything : Effect.succeed(null)))
  }
})

/** Records the present home of the ledger. If that is another one than before, it holds all accepted operations. */
const moveHomeStatement = `
  WITH home AS (
    UPDATE ledger_home h SET (system_identifier, database, operations_oid) = (${presentHome}), history = gen_random_uuid()
    WHERE NOT ${isHome}
    RETURNING 1
  ), held AS (
    UPDATE operations SET ${placeHold} WHERE state = 'accepted' AND EXISTS (SELECT 1 FROM home)
  )
  SELECT 1 FROM home`

/**
 * The state before may be an earlier one, put back, so change tokens end: see `ledger_history`. It waits for the claims under way.
 * `endClaims` belongs behind it, in the same transaction.
 */
export const holdAllStatement = `
  WITH history AS (
    UPDATE ledger_home SET history = gen_random_uuid()
  )
  UPDATE operations SET ${placeHold}, due_at = now() WHERE state = 'accepted' RETURNING 1`

/**
 * It waits for a claim of the same row, and then updates nothing. The hold keeps the proof that no worker had claimed the operation. One that
 * is held already keeps its examination, its proof and its next status read.
 */
const placeHoldStatement = `
  UPDATE operations o SET hold_placed = true, due_at = CASE WHEN ${isFree} THEN now() ELSE o.due_at END, hold_outlasts_approval = true,
    unsent_in = CASE WHEN o.hold_placed THEN o.unsent_in WHEN ${isUnsent} THEN (SELECT history FROM ledger_home) END
  WHERE o.id = $1 AND ${mayHold}
  RETURNING ${publicColumns}`

/**
 * The columns of a released operation, which no other history can send. One that waits for an approval stays held, with the proof that it
 * was never sent. So does one that an operator holds, if `keepsHold` is true.
 */
const releasedExcept = (keepsHold: string) =>
  `timeline = ledger_timeline(), hold_placed = (${awaitsApproval} OR ${keepsHold}), hold_outlasts_approval = ${keepsHold},
    unsent_in = CASE WHEN ${awaitsApproval} OR ${keepsHold} THEN (SELECT history FROM ledger_home) END, due_at = now(),
    examined_timeline = NULL, waiting = false, send_before = NULL, under_review = o.under_review AND ${awaitsApproval},
    reviewed_at = now(), reading_since = NULL`

/** The same by a proof, which ends no hold of an operator. */
export const released = releasedExcept(heldByOperator)

/**
 * For a change of the timeline that is proven to have lost no claim: operations that were provably never sent before it, and wait for an
 * approval or for an operator, wait on. `$1` is the timeline before, or null for all.
 */
export const keepWaitingStatement = `
  UPDATE operations o SET ${released}
  WHERE (${awaitsApproval} OR ${heldByOperator}) AND NOT o.acknowledged AND o.unsent_in = (SELECT history FROM ledger_home)
    AND o.timeline < (SELECT ledger_timeline()) AND ($1::integer IS NULL OR o.timeline = $1)`

/**
 * Releases nothing before the ledger was verified in its present life: a verification under way may be placing holds. It has only the word
 * of an operator that the failover lost nothing. So it leaves out what waits for an approval, and would end as cancelled by time: that may
 * have been approved and paid in the history that was lost. It also leaves out what an operator holds for another reason than the failover.
 */
const releaseAllStatement = `
  UPDATE operations o SET ${released}
  WHERE o.state = 'accepted' AND NOT ${awaitsApproval} AND NOT ${heldByOperator}
    AND ${claimableTimeline} < (SELECT ledger_timeline()) AND NOT o.acknowledged
    AND NOT EXISTS (SELECT FROM ledger_home WHERE epoch IS NOT NULL AND epoch_life IS DISTINCT FROM ledger_life())
  RETURNING 1`

/**
 * Releases an operation that the reconciler examined on this timeline, once the earlier claim holder can send it no more, or one that was
 * provably never sent. The hold of an operator ends. One that waits for an approval waits on.
 */
const releaseStatement = `
  UPDATE operations o SET ${releasedExcept("false")}
  WHERE o.id = $1 AND o.state = 'accepted' AND (${isExamined} AND o.send_before <= now() AND NOT o.acknowledged
    OR o.hold_placed AND ${isUnsent})
    AND (NOT ${needsDecision} OR o.hold_outlasts_approval)
  RETURNING ${publicColumns}`

const holdStatement = `
  SELECT ${publicColumns}, o.state = 'accepted' AND ${isFree} AS is_free, ${mayHold} AS may_hold,
    coalesce(${isExamined}, false) AS is_examined, o.acknowledged,
    o.send_before, ${needsDecision} AS needs_decision
  FROM operations o WHERE o.id = $1`
