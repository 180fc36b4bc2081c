/**
 * The room `services/sql/ledger`: acceptances, and the moves that no worker makes. Statements of workers belong to `sql/queue`. Read this file first.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import type { RequestBinding } from "../../../domain/Idempotency.ts"
import {
  AlreadySettled,
  type HistoryEntry,
  isTerminal,
  type OperationId,
  OperationNotFound,
  type OperationState,
  type Outcome,
  StaleOperation
} from "../../../domain/Operation.ts"
import { isByOperator, statedReference } from "../../../domain/OperatorEvidence.ts"
import { StillHeld } from "../../../domain/Submission.ts"
import {
  blockedError,
  cancellationResult,
  cancelledUnsent,
  type EvidenceFacts,
  findTransitionError
} from "../../rules/ledgerRules.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import {
  type Column,
  findOperation,
  fromRow,
  instantOf,
  instantOrNull,
  type OperationRow,
  publicColumns
} from "../OperationRow.ts"
import { awaitsApproval, isUnsent, needsDecision } from "../queueFragments.ts"
import { makeAcceptances } from "./SqlAcceptances.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const { accept, acceptAll } = yield* makeAcceptances

  const show = (id: OperationId) => findOperation(sql, id)

  const check = Effect.fn("OperationLedger.check")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const [found] = yield* orUnavailable(
        sql.unsafe<FactsRow>(factsStatement, [id, statedReference(evidence)?.text ?? null])
      )
      if (found === undefined) return yield* new OperationNotFound({ id })
      return findTransitionError(fromRow(found), revision, to, evidence, {
        ...found,
        now: instantOf(found.now),
        send_before: instantOrNull(found.send_before),
        due_at: instantOrNull(found.due_at),
        fence_started_at: instantOrNull(found.fence_started_at),
        fencing_until: instantOrNull(found.fencing_until)
      })
    }
  )

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const refused = yield* check(id, revision, to, evidence)
      if (refused !== null) return yield* refused
      const failure = to.state === "failed" ? to.failure : null
      const [row] = yield* orUnavailable(
        sql.unsafe<OperationRow>(transitionStatement, [
          id,
          revision,
          to.state,
          failure?.code ?? null,
          failure?.message ?? null,
          evidence === null ? null : JSON.stringify(evidence),
          isTerminal(to.state) && isByOperator(evidence)
        ])
      )
      if (row !== undefined) return fromRow(row)
      const refusedSince = yield* check(id, revision, to, evidence)
      if (refusedSince !== null) return yield* refusedSince
      const now = yield* show(id)
      if (now.revision !== revision) return yield* new StaleOperation({ id, expected: revision, actual: now.revision })
      return yield* blockedError(now, to)
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const text = evidence === null ? null : JSON.stringify(evidence)
    const [row] = yield* orUnavailable(
      sql.unsafe<OperationRow>(cancelStatement, [id, text, cancelledUnsent.code, cancelledUnsent.message])
    )
    return row === undefined ? yield* cancellationResult(yield* show(id)) : fromRow(row)
  })

  const review = Effect.fn("OperationLedger.review")(function*(id: OperationId, underReview: boolean) {
    const [row] = yield* orUnavailable(sql.unsafe<OperationRow>(reviewStatement, [id, underReview]))
    if (row !== undefined) return fromRow(row)
    const { state, terminal } = yield* show(id)
    if (terminal) return yield* new AlreadySettled({ id, state })
    return yield* new StillHeld({ id, reason: "approval", until: null })
  })

  const bound = Effect.fn("OperationLedger.bound")(function*({ client_id, key, subject }: RequestBinding) {
    const [row] = yield* orUnavailable(sql.unsafe<OperationRow>(boundStatement, [client_id, subject, key]))
    return row === undefined ? null : fromRow(row)
  })

  const isEmpty = Effect.map(
    orUnavailable(sql.unsafe("SELECT 1 FROM operations LIMIT 1", [])),
    (rows) => rows.length === 0
  )

  const history = Effect.fn("OperationLedger.history")(function*(id: OperationId) {
    const rows = yield* orUnavailable(sql.unsafe<HistoryRow>(historyStatement, [id]))
    if (rows.length === 0) return yield* new OperationNotFound({ id })
    return rows.map((row): HistoryEntry => ({ ...row, at: DateTime.fromDateUnsafe(row.at) }))
  })

  const returnReason = Effect.fn("OperationLedger.returnReason")(function*(id: OperationId) {
    const [row] = yield* orUnavailable(
      sql<{ readonly return_reason: string | null }>`SELECT return_reason FROM operations WHERE id = ${id}`
    )
    return row === undefined ? yield* new OperationNotFound({ id }) : row.return_reason
  })

  return { accept, acceptAll, check, transition, cancel, review, show, bound, returnReason, isEmpty, history }
})

const boundStatement = `
  SELECT ${publicColumns} FROM operations o WHERE o.client_id = $1 AND o.subject = $2 AND o.idempotency_key = $3`

type FactsRow = OperationRow & { readonly [Name in keyof EvidenceFacts]: Column<EvidenceFacts[Name]> }

/** The operation, and `EvidenceFacts` of the reference `$2`, which may be null. */
const factsStatement = `
  SELECT ${publicColumns}, clock_timestamp() AS now, o.send_before, o.due_at, o.return_reason, o.fence_started_at,
    o.fencing_until, o.acknowledged, o.reference, (
      SELECT p.id FROM operations p
      WHERE p.reference = $2 AND p.provider = o.provider AND p.id <> o.id
        AND coalesce(p.provider_account = o.provider_account, true)
      LIMIT 1
    ) AS holder
  FROM operations o WHERE o.id = $1`

/**
 * A held operation that may have been sent ends only by way of `submitting`. No `due_at` is given: the trigger sets the time of the next
 * component. A claimed operation does not fail while its holder may send the first byte, or wait for the answer, so not before the time of
 * the rescue. Returns and take-overs keep the revision: the caller may have seen a returned claim that a worker has taken over since. A claim of an earlier timeline may lack its return and
 * its take-over. A claim by hand has no `send_before`, and no holder. An `indeterminate` operation fails only after its `send_before`:
 * until then the provider may get the request after it was asked. A person (`$7`) ends no operation while its fence
 * may be under way.
 */
const transitionStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6, due_at = NULL
  WHERE o.id = $1 AND o.revision = $2
    AND NOT ($7::boolean AND coalesce(o.fencing_until > now(), false))
    AND CASE
    WHEN o.state = 'accepted' AND $3 <> 'submitting' OR o.return_reason IS NOT NULL AND $3 = 'failed' THEN ${isUnsent}
    WHEN o.state = 'accepted' THEN NOT ${needsDecision}
    WHEN o.state = 'submitting' AND $3 = 'failed'
      THEN o.send_before IS NULL OR greatest(o.send_before, o.due_at) <= now() AND is_present_ledger(o.timeline)
    WHEN o.state = 'indeterminate' AND $3 = 'failed' THEN coalesce(o.send_before <= now(), true)
    ELSE true END
  RETURNING ${publicColumns}`

/** It waits for a claim or a take-over of the same row, and then updates nothing. No transition leads from `submitting` to `cancelled`. */
const cancelStatement = `
  UPDATE operations o SET revision = revision + 1, evidence = $2,
    state = CASE WHEN o.state = 'accepted' THEN 'cancelled' ELSE 'failed' END,
    failure_code = CASE WHEN o.state <> 'accepted' THEN $3 END, failure_message = CASE WHEN o.state <> 'accepted' THEN $4 END
  WHERE o.id = $1 AND ${isUnsent}
  RETURNING ${publicColumns}`

const reviewStatement = `
  UPDATE operations o
  SET under_review = $2, reviewed_at = CASE WHEN $2 THEN o.reviewed_at ELSE clock_timestamp() END
  WHERE o.id = $1 AND o.due_at IS NOT NULL AND ($2 OR NOT ${awaitsApproval})
  RETURNING ${publicColumns}`

interface HistoryRow {
  readonly revision: number
  readonly from: OperationState | null
  readonly to: OperationState
  readonly at: Date
  readonly evidence: Schema.Json
}

const historyStatement = `
  SELECT revision, from_state AS "from", to_state AS "to", at, evidence
  FROM operation_history WHERE operation_id = $1 ORDER BY revision`
