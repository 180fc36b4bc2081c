/** Outcomes in PostgreSQL: what workers and reconcilers record of claimed and held operations. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { type OperationId, type Outcome, StaleOperation } from "../../../domain/Operation.ts"
import type { OutcomeRecord, Recording } from "../../../domain/Submission.ts"
import { firstOfEach } from "../../queue/Outcomes.ts"
import {
  contradictionEvidence,
  contradicts,
  isReversal,
  type KnownOutcome,
  type LateProof,
  namesNoOrder,
  type Proof,
  type Reported,
  reportedOf
} from "../../rules/contradictions.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { findOperation, fromRow, type OperationRow, publicColumns } from "../OperationRow.ts"
import { millis, nextRead } from "../queueFragments.ts"
import { toDate } from "./SubmissionRow.ts"

/** Fails: the operation is not as the caller knew it, or does not exist. */
export const failStale = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, id: OperationId, expected: number) {
  const { revision: actual } = yield* findOperation(sql, id)
  return yield* new StaleOperation({ id, expected, actual })
})

export const makeOutcomes = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const recordIn = (statement: string, records: ReadonlyArray<readonly [OutcomeRecord, index: number]>) =>
    orUnavailable(
      sql.unsafe<OperationRow & { readonly n: number }>(statement, [
        JSON.stringify(records.map(([record, index]) => toInput(record, index)))
      ])
    )

  const record = Effect.fn("Outcomes.record")(
    function*(id: OperationId, revision: number, outcome: Outcome, recording: Recording) {
      const [row] = yield* recordIn(recordStatement, [[{ id, revision, outcome, recording }, 0]])
      return row === undefined ? yield* failStale(sql, id, revision) : fromRow(row)
    }
  )

  const recordAll = Effect.fn("Outcomes.recordAll")(function*(records: ReadonlyArray<OutcomeRecord>) {
    const recorded = new Set((yield* recordIn(recordUnlocked, firstOfEach(records))).map(({ n }) => n))
    return records.map((_, n) => recorded.has(n))
  })

  const recordHeld = Effect.fn("Outcomes.recordHeld")(
    function*(id: OperationId, revision: number, outcome: Outcome, recording: Recording) {
      const submitting = { ...recording, reference: null }
      return yield* orUnavailable(
        sql.withTransaction(Effect.andThen(
          record(id, revision, { state: "submitting" }, submitting),
          record(id, revision + 1, outcome, recording)
        ))
      )
    }
  )

  const report = Effect.fn("Outcomes.report")(function*(id: OperationId, proof: LateProof) {
    const [row] = yield* orUnavailable(
      sql.unsafe<KnownOutcome & { readonly isForeign: boolean }>(reportStatement, [
        id,
        proof.reference,
        toDate(proof.claimed_at),
        namesNoOrder(proof)
      ])
    )
    if (row !== undefined) return reportedOf(row, proof)
    const unsettled = yield* orUnavailable(sql.unsafe(unsettledStatement, [id]))
    return { as: unsettled.length === 0 ? "settled" : "claimed", isKept: unsettled.length === 0 } satisfies Reported
  })

  const contradict = Effect.fn("Outcomes.contradict")(function*(id: OperationId, proof: Proof) {
    // A final row never changes, so the record follows from what this statement reads.
    const [known] = yield* orUnavailable(sql.unsafe<KnownOutcome>(knownStatement, [id]))
    if (known === undefined || !contradicts(known, proof)) return null
    if (!isReversal(known, proof)) return known
    yield* orUnavailable(sql.unsafe(contradictStatement, [id, JSON.stringify(contradictionEvidence(proof))]))
    return known
  })

  return { record, recordAll, recordHeld, report, contradict }
})

/** A row of `input` in `recordInput`. */
const toInput = ({ id, outcome, recording, revision }: OutcomeRecord, n: number) => ({
  n,
  id,
  revision,
  state: outcome.state,
  failure_code: outcome.state === "failed" ? outcome.failure.code : null,
  failure_message: outcome.state === "failed" ? outcome.failure.message : null,
  // As text, because PostgreSQL unescapes all strings of the input. JSON of evidence may escape what no text can hold.
  evidence: JSON.stringify(recording.evidence),
  reference: recording.reference,
  due_in: Duration.toMillis(recording.due_in),
  send_before: toDate(recording.send_before),
  ...recording.fence_started_at !== undefined && {
    is_read: true,
    fence_started_at: toDate(recording.fence_started_at),
    sent_as: recording.sent_as
  },
  ...outcome.state === "succeeded" && recording.reversible !== undefined && {
    reversible_for: Duration.toMillis(recording.reversible.within),
    read_in: Duration.toMillis(recording.reversible.read_in)
  }
})

/** Rows are locked in the order of the input. Each of `free` is updated, so a success that may be reversed is read again. */
const recordInput = (locked: "" | " SKIP LOCKED") => `
  WITH input AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS i (n integer, id uuid, revision integer, state text, failure_code text,
      failure_message text, evidence text, reference text, due_in float8, send_before timestamptz, is_read boolean,
      fence_started_at timestamptz, sent_as text, reversible_for float8, read_in float8)
  ), free AS MATERIALIZED (
    SELECT i.*, o.client_id, o.provider, now() + ${millis("i.reversible_for")} AS until,
      ${nextRead(millis("i.read_in"))} AS read_at
    FROM input i JOIN operations o ON o.id = i.id
    WHERE o.revision = i.revision AND o.return_reason IS NULL
      AND (i.send_before IS NULL OR o.send_before = i.send_before)
      AND (i.is_read IS NOT TRUE OR o.fence_started_at IS NOT DISTINCT FROM i.fence_started_at)
      AND coalesce(o.reference = i.reference, true)
      AND (coalesce(i.failure_code <> 'provider_never_received', true)
        OR NOT o.acknowledged AND o.sent_as IS NOT DISTINCT FROM i.sent_as)
    FOR NO KEY UPDATE OF o${locked}
  ), reversible AS (
    INSERT INTO reversal_reads (operation_id, client_id, provider, due_at, until)
    SELECT id, client_id, provider, least(read_at, until), until FROM free WHERE until IS NOT NULL
  )
  UPDATE operations o
  SET state = i.state, revision = o.revision + 1, failure_code = i.failure_code, failure_message = i.failure_message,
    evidence = i.evidence::json, reference = coalesce(o.reference, i.reference), due_at = ${
  nextRead(millis("i.due_in"))
}
  FROM free i WHERE o.id = i.id AND o.client_id = i.client_id
  RETURNING i.n, ${publicColumns}`

/** It waits for a locked row. */
const recordStatement = recordInput("")

/** A locked row is left out, so that it delays no other. */
const recordUnlocked = recordInput(" SKIP LOCKED")

/**
 * A later claim may have sent it, too. A take-over has no row of the history: the worker that returned its claim sent nothing. The history
 * has the time at which a row changed, and the claim that at which its statement began: seconds earlier on a busy server. A status read or
 * a person that found a held operation moved it to `submitting` without a claim. JSON may have characters that no text has.
 */
const isOfOtherClaim = `(o.state <> 'accepted' AND EXISTS (
      SELECT FROM operation_history h WHERE h.operation_id = o.id AND h.client_id = o.client_id AND h.to_state = 'submitting'
        AND h.at > $3::timestamptz + interval '5 seconds'
        AND coalesce(
          regexp_replace(h.evidence::text, '\\\\u(0000|d[89a-f][0-9a-f]{2})', '\\\\ufffd', 'gi')::json ->> 'by', ''
        ) NOT IN ('status_read', 'operator')
    ))`

/** Only accepted operations are held. Of one in another state, the columns of the hold stay as they are. No release of all ends the hold. */
const reportStatement = `
  UPDATE operations o
  SET due_at = now(), reference = coalesce(o.reference, $2), sent_as = CASE WHEN $4 THEN NULL ELSE o.sent_as END,
    under_review = o.under_review OR o.state = 'accepted' OR coalesce(o.reference <> $2, false) OR ${isOfOtherClaim},
    hold_outlasts_approval = o.hold_outlasts_approval OR o.state = 'accepted',
    hold_placed = (o.state = 'accepted'), examined_timeline = NULL, unsent_in = NULL
  WHERE o.id = $1 AND o.state IN ('accepted', 'submitted', 'indeterminate')
  RETURNING o.state, o.acknowledged, o.reference, ${isOfOtherClaim} AS "isForeign"`

/** It follows a report that changed nothing: then a claim has the operation, or had it a moment ago, unless that is final. */
const unsettledStatement = "SELECT 1 FROM operations WHERE id = $1 AND completed_at IS NULL"

const knownStatement = "SELECT state, acknowledged, reference FROM operations WHERE id = $1"

const contradictStatement = `
  INSERT INTO operation_reversals (operation_id, client_id, provider, evidence)
  SELECT id, client_id, provider, $2::json FROM operations WHERE id = $1
  ON CONFLICT DO NOTHING`
